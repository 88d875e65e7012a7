// Server FOLDER PORT hosts the application of a folder in ASP.NET, behind Mono's HttpListener. It prints the versions first.
using System;
using System.IO;
using System.Net;
using System.Threading;
using System.Web;
using System.Web.Hosting;

public sealed class Host : MarshalByRefObject {
    public override object InitializeLifetimeService() { return null; }

    public void Listen(int port) {
        var listener = new HttpListener();
        listener.Prefixes.Add("http://localhost:" + port + "/");
        listener.Start();
        for (;;) HttpRuntime.ProcessRequest(new Worker(listener.GetContext()));
    }
}

public sealed class Worker : SimpleWorkerRequest {
    readonly HttpListenerContext context;
    readonly string path;
    readonly byte[] body;
    readonly MemoryStream answer = new MemoryStream();

    public Worker(HttpListenerContext context)
            : base(context.Request.RawUrl.Split('?')[0].Substring(1), Query(context), new StringWriter()) {
        this.context = context;
        path = context.Request.RawUrl.Split('?')[0];
        var read = new MemoryStream();
        context.Request.InputStream.CopyTo(read);
        body = read.ToArray();
    }

    static string Query(HttpListenerContext context) {
        int at = context.Request.RawUrl.IndexOf('?');
        return at < 0 ? "" : context.Request.RawUrl.Substring(at + 1);
    }

    public override string GetHttpVerbName() { return context.Request.HttpMethod; }
    public override string GetUriPath() { return path; }
    public override string GetRawUrl() { return context.Request.RawUrl; }
    public override byte[] GetPreloadedEntityBody() { return body; }
    public override bool IsEntireEntityBodyIsPreloaded() { return true; }
    public override string GetKnownRequestHeader(int index) { return context.Request.Headers[GetKnownRequestHeaderName(index)]; }
    public override string GetUnknownRequestHeader(string name) { return context.Request.Headers[name]; }

    public override string[][] GetUnknownRequestHeaders() {
        var asked = context.Request.Headers["X-Asked"];
        return new[] { new[] { "X-Asked", asked } };
    }

    public override void SendStatus(int status, string description) { context.Response.StatusCode = status; }
    public override void SendKnownResponseHeader(int index, string value) { }
    public override void SendUnknownResponseHeader(string name, string value) { }
    public override void SendResponseFromMemory(byte[] data, int length) { answer.Write(data, 0, length); }
    public override void FlushResponse(bool final) { }

    public override void EndOfRequest() {
        try {
            context.Response.Close(answer.ToArray(), true);
        } catch (Exception) {
            // the client has gone
        }
    }
}

public static class Server {
    public static void Main(string[] arguments) {
        var host = (Host) ApplicationHost.CreateApplicationHost(typeof(Host), "/", arguments[0]);
        var mono = Type.GetType("Mono.Runtime").GetMethod("GetDisplayName", System.Reflection.BindingFlags.NonPublic
            | System.Reflection.BindingFlags.Static).Invoke(null, null).ToString().Split(' ')[0];
        var json = System.Reflection.AssemblyName.GetAssemblyName(Path.Combine(arguments[0], "bin/Newtonsoft.Json.dll"));
        Console.WriteLine("Mono {0}, Newtonsoft.Json {1}", mono, System.Diagnostics.FileVersionInfo.GetVersionInfo(new Uri(json.CodeBase).LocalPath).FileVersion);
        host.Listen(int.Parse(arguments[1]));
        Thread.Sleep(Timeout.Infinite);
    }
}
