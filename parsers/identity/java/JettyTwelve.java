import java.net.InetSocketAddress;
import java.util.Map;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Jetty 12: JettyTwelve PORT. */
public final class JettyTwelve {
    public static void main(String[] arguments) throws Exception {
        System.out.println("Jetty " + org.eclipse.jetty.util.Jetty.VERSION);
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        ServletContextHandler context = new ServletContextHandler();
        Map.of("r", "/r", "login", "/login", "items", "/api/items", "user", "/users/*")
            .forEach((name, path) -> context.addServlet(new ServletHolder(name, new Reader(name)), path));
        server.setHandler(context);
        server.start();
    }
}
