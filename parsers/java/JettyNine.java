import java.io.IOException;
import java.net.InetSocketAddress;
import javax.servlet.MultipartConfigElement;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Jetty 9: JettyNine PORT. */
public final class JettyNine extends HttpServlet {
    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/plain;charset=utf-8");
        byte[] answer;
        try {
            answer = Answer.bytes(request.getParameter(request.getHeader("X-Asked")));
        } catch (Throwable error) {
            response.setStatus(400);
            answer = Answer.refusal(error);
        }
        response.getOutputStream().write(answer);
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("Jetty " + org.eclipse.jetty.util.Jetty.VERSION);
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        ServletContextHandler context = new ServletContextHandler();
        ServletHolder holder = new ServletHolder(new JettyNine());
        holder.getRegistration().setMultipartConfig(new MultipartConfigElement("/srv"));
        context.addServlet(holder, "/*");
        server.setHandler(context);
        server.start();
    }
}
