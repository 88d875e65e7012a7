import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.commons.fileupload.FileItem;
import org.apache.commons.fileupload.FileUpload;
import org.apache.commons.fileupload.RequestContext;
import org.apache.commons.fileupload.disk.DiskFileItemFactory;

/** Parsers that applications call themselves: Documents PORT. The way is the parser. */
public final class Documents {
    public static class User { public Object email; }
    public static class Document { public Object model; public User user; }
    public static class Counted { public Integer model; }

    private static final ObjectMapper JACKSON = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    private static final Gson GSON = new Gson();

    private static Object of(Document document, String asked) {
        if (asked.equals("model")) return document.model;
        return document.user == null ? null : document.user.email;
    }

    private static Object jacksonTree(byte[] body, String asked) throws Exception {
        JsonNode node = JACKSON.readTree(body);
        for (String name : asked.split("\\.")) if (node != null) node = node.get(name);
        return node == null ? null : JACKSON.convertValue(node, Object.class);
    }

    private static Object gsonTree(String body, String asked) {
        JsonObject document = JsonParser.parseString(body).getAsJsonObject();
        if (asked.equals("model")) return GSON.fromJson(document.get("model"), Object.class);
        return document.has("user") ? GSON.fromJson(document.getAsJsonObject("user").get("email"), Object.class) : null;
    }

    /** Commons FileUpload, which Struts and older Springs use. */
    private static Object fileUpload(byte[] body, HttpExchange exchange, String asked) throws Exception {
        RequestContext context = new RequestContext() {
            public String getCharacterEncoding() { return "UTF-8"; }
            public String getContentType() { return exchange.getRequestHeaders().getFirst("Content-Type"); }
            public int getContentLength() { return body.length; }
            public InputStream getInputStream() { return new ByteArrayInputStream(body); }
        };
        for (FileItem item : new FileUpload(new DiskFileItemFactory()).parseRequest(context)) {
            if (asked.equals(item.getFieldName())) return item.isFormField() ? item.getString("UTF-8") : Map.of("file", item.getName());
        }
        return null;
    }

    private static Object read(HttpExchange exchange) throws Exception {
        String asked = exchange.getRequestHeaders().getFirst("X-Asked");
        byte[] body = exchange.getRequestBody().readAllBytes();
        String text = new String(body, StandardCharsets.UTF_8);
        switch (exchange.getRequestURI().getPath()) {
            case "/jackson-object": return of(JACKSON.readValue(body, Document.class), asked);
            case "/jackson-tree": return jacksonTree(body, asked);
            case "/jackson-int": return JACKSON.readValue(body, Counted.class).model;
            case "/gson-object": return of(GSON.fromJson(text, Document.class), asked);
            case "/gson-tree": return gsonTree(text, asked);
            default: return fileUpload(body, exchange, asked);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("Jackson " + com.fasterxml.jackson.databind.cfg.PackageVersion.VERSION);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 50);
        server.createContext("/", exchange -> {
            int status = 200;
            byte[] answer;
            try {
                answer = Answer.bytes(read(exchange));
            } catch (Throwable error) {
                status = 400;
                answer = Answer.refusal(error);
            }
            exchange.sendResponseHeaders(status, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}
