import io.undertow.Undertow;
import io.undertow.server.HttpServerExchange;
import io.undertow.server.handlers.BlockingHandler;
import io.undertow.server.handlers.form.FormData;
import io.undertow.server.handlers.form.FormDataParser;
import io.undertow.server.handlers.form.FormParserFactory;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Undertow, the server of WildFly: UndertowServer PORT. */
public final class UndertowServer {
    private static final FormParserFactory PARSERS = FormParserFactory.builder().withDefaultCharset("UTF-8").build();

    private static Object read(HttpServerExchange exchange) throws Exception {
        FormDataParser parser = PARSERS.createParser(exchange);
        if (parser == null) return null;
        FormData.FormValue value = parser.parseBlocking().getFirst(exchange.getRequestHeaders().getFirst("X-Asked"));
        if (value == null) return null;
        if (!value.isFileItem()) return value.getValue();
        if (value.getFileName() != null) return Map.of("file", value.getFileName());
        try (InputStream large = value.getFileItem().getInputStream()) { // a large value
            return new String(large.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    public static void main(String[] arguments) {
        System.out.println("Undertow " + io.undertow.Version.getVersionString());
        Undertow.builder().addHttpListener(Integer.parseInt(arguments[0]), "127.0.0.1").setHandler(new BlockingHandler(exchange -> {
            byte[] answer;
            try {
                answer = Answer.bytes(read(exchange));
            } catch (Throwable error) {
                exchange.setStatusCode(400);
                answer = Answer.refusal(error);
            }
            exchange.getResponseSender().send(ByteBuffer.wrap(answer));
        })).build().start();
    }
}
