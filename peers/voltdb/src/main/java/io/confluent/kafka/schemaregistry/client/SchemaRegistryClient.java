package io.confluent.kafka.schemaregistry.client;

/** VoltDB's server links to a class of this name, and calls it only for exports in Avro, which the laboratory has none of. */
public interface SchemaRegistryClient {}
