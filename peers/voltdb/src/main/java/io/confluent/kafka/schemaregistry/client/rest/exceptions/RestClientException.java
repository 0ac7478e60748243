package io.confluent.kafka.schemaregistry.client.rest.exceptions;

/** See SchemaRegistryClient. */
public class RestClientException extends Exception {
    private static final long serialVersionUID = 1L;
}
