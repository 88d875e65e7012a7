import java.util.Map;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** Tomcat 10 and later: TomcatServer PORT. */
public final class TomcatServer {
    public static void main(String[] arguments) throws Exception {
        System.out.println("Tomcat " + org.apache.catalina.util.ServerInfo.getServerNumber());
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir("/srv/tomcat");
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", "/srv");
        Map.of("r", "/r", "login", "/login", "items", "/api/items", "user", "/users/*").forEach((name, path) -> {
            Tomcat.addServlet(context, name, new Reader(name));
            context.addServletMappingDecoded(path, name);
        });
        tomcat.start();
    }
}
