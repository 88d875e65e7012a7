import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.multipart.Attribute;
import io.netty.handler.codec.http.multipart.DefaultHttpDataFactory;
import io.netty.handler.codec.http.multipart.HttpPostRequestDecoder;
import io.netty.handler.codec.http.multipart.InterfaceHttpData;
import java.util.Map;

/** Netty's decoder of forms, which Vert.x, Micronaut and Play use: NettyServer PORT. */
public final class NettyServer extends SimpleChannelInboundHandler<FullHttpRequest> {
    private static Object read(FullHttpRequest request) throws Exception {
        HttpPostRequestDecoder decoder = new HttpPostRequestDecoder(new DefaultHttpDataFactory(false), request);
        try {
            InterfaceHttpData data = decoder.getBodyHttpData(request.headers().get("X-Asked"));
            if (data == null) return null;
            return data instanceof Attribute ? ((Attribute) data).getValue() : Map.of("file", data.getName());
        } finally {
            decoder.destroy();
        }
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
        HttpResponseStatus status = HttpResponseStatus.OK;
        byte[] answer;
        try {
            answer = Answer.bytes(read(request));
        } catch (Throwable error) {
            status = HttpResponseStatus.BAD_REQUEST;
            answer = Answer.refusal(error);
        }
        context.writeAndFlush(new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, status, Unpooled.wrappedBuffer(answer)))
            .addListener(ChannelFutureListener.CLOSE);
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("Netty " + io.netty.util.Version.identify().values().iterator().next().artifactVersion());
        NioEventLoopGroup group = new NioEventLoopGroup(1);
        new ServerBootstrap().group(group).channel(NioServerSocketChannel.class).childHandler(new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(4 << 20), new NettyServer());
            }
        }).bind("127.0.0.1", Integer.parseInt(arguments[0])).sync();
    }
}
