package basalt.adapter.voldemort;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import javax.xml.XMLConstants;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;
import org.xml.sax.SAXException;

/** What every server tells of the cluster: cluster.xml and stores.xml. */
final class Metadata {
    private Metadata() {}

    /** The servers that cluster.xml names. */
    static List<Nodes.Node> nodes(byte[] clusterXml) throws IOException {
        List<Nodes.Node> nodes = new ArrayList<>();
        NodeList servers = document(clusterXml).getElementsByTagName("server");
        for (int i = 0; i < servers.getLength(); i++) {
            Element server = (Element) servers.item(i);
            int port = number(server, "socket-port");
            InetSocketAddress place = InetSocketAddress.createUnresolved(text(server, "host", ""), port);
            nodes.add(new Nodes.Node(number(server, "id"), place));
        }
        if (nodes.isEmpty()) {
            throw new IOException("cluster.xml names no server");
        }
        return nodes;
    }

    /** The element of stores.xml that tells of a store. */
    static Element store(byte[] storesXml, String name) throws IOException {
        NodeList stores = document(storesXml).getElementsByTagName("store");
        for (int i = 0; i < stores.getLength(); i++) {
            Element store = (Element) stores.item(i);
            if (name.equals(text(store, "name", ""))) {
                return store;
            }
        }
        throw new IOException("there is no store " + name + ": docs/PEERS.md says how it must be made");
    }

    static String text(Element parent, String name, String otherwise) {
        NodeList found = parent.getElementsByTagName(name);
        return found.getLength() == 0 ? otherwise : found.item(0).getTextContent().trim();
    }

    private static int number(Element parent, String name) throws IOException {
        try {
            return Integer.parseInt(text(parent, name, ""));
        } catch (NumberFormatException bad) {
            throw new IOException("cluster.xml: a server's " + name + " is not a number");
        }
    }

    private static Element document(byte[] xml) throws IOException {
        try {
            DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
            factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
            factory.setFeature("http://apache.org/xml/features/disallow-doctype-decl", true);
            return factory.newDocumentBuilder().parse(new ByteArrayInputStream(xml)).getDocumentElement();
        } catch (ParserConfigurationException | SAXException bad) {
            String shown = new String(xml, 0, Math.min(xml.length, 80), StandardCharsets.UTF_8);
            throw new IOException("the cluster's metadata is no XML: " + shown, bad);
        }
    }
}
