import jakarta.servlet.MultipartConfigElement;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;

/**
 * Tomcat 10 and later: TomcatServer PORT. Below /utf-8 requests without a charset are UTF-8, as in the web.xml that Tomcat
 * comes with; below /bare they are ISO-8859-1, as the servlet specification says.
 */
public final class TomcatServer {
    public static void main(String[] arguments) throws Exception {
        System.out.println("Tomcat " + org.apache.catalina.util.ServerInfo.getServerNumber());
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir("/srv/tomcat");
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        for (String path : new String[] {"/utf-8", "/bare"}) {
            Context context = tomcat.addContext(path, "/srv");
            if (path.equals("/utf-8")) context.setRequestCharacterEncoding("UTF-8");
            Wrapper reader = Tomcat.addServlet(context, "reader", new Reader());
            reader.setMultipartConfigElement(new MultipartConfigElement("/srv"));
            context.addServletMappingDecoded("/*", "reader");
        }
        tomcat.start();
    }
}
