#!/usr/bin/escript
%% -*- erlang -*-
%%! +sbtu +A0
%% server.escript FRAMEWORK PORT serves one framework. It prints the version first.
%%
%% The first element of a path is the way to read, the header X-Asked the name that is asked for.
-mode(compile).
-export([init/2]).

main(["cowboy", Port]) ->
    {ok, _} = application:ensure_all_started(cowboy),
    io:format("Cowboy ~s, Cowlib ~s, Erlang/OTP ~s~n", [version(cowboy), version(cowlib), erlang:system_info(otp_release)]),
    Routes = cowboy_router:compile([{'_', [{"/:way", ?MODULE, []}]}]),
    {ok, _} = cowboy:start_clear(http, #{socket_opts => [{ip, {127, 0, 0, 1}}, {port, list_to_integer(Port)}], num_acceptors => 2},
        #{env => #{dispatch => Routes}}),
    timer:sleep(infinity);
main(["mochiweb", Port]) ->
    _ = application:load(mochiweb),
    io:format("MochiWeb ~s, Erlang/OTP ~s~n", [version(mochiweb), erlang:system_info(otp_release)]),
    {ok, _} = mochiweb_http:start([{ip, {127, 0, 0, 1}}, {port, list_to_integer(Port)}, {loop, fun mochi/1}]),
    timer:sleep(infinity).

version(Application) ->
    _ = application:load(Application),
    {ok, Version} = application:get_key(Application, vsn),
    Version.

%% A value as an answer.
answer(undefined) -> <<"none">>;
answer(null) -> <<"none">>;
answer({file, Name}) -> [<<"other {\"file\":">>, quote(Name), <<"}">>];
answer(Value) when is_binary(Value) -> [<<"text ">>, quote(Value)];
answer(Value) when is_integer(Value) -> [<<"number ">>, integer_to_binary(Value)];
answer(Value) when is_float(Value) -> [<<"number ">>, float_to_binary(Value, [short])];
answer(true) -> <<"other true">>;
answer(false) -> <<"other false">>;
answer(Value) when is_list(Value) -> <<"other [...]">>;
answer(_) -> <<"other {...}">>.

quote(Text) -> [$", [escape(Byte) || <<Byte>> <= Text], $"].

escape(Byte) when Byte =:= $"; Byte =:= $\\ -> [$\\, Byte];
escape(Byte) when Byte < 32; Byte =:= 127 -> io_lib:format("\\u~4.16.0b", [Byte]);
escape(Byte) -> Byte.

refusal(Error) -> [<<"refused: ">>, binary:part(iolist_to_binary([io_lib:format("~0p", [Error]), lists:duplicate(80, $\s)]), 0, 80)].

names(<<"user.email">>) -> [<<"user">>, <<"email">>];
names(Asked) -> [Asked].

%% What stands at a path of a document. No document but an object has any.
at(Document, []) -> Document;
at(Document, [Name | Names]) when is_map(Document) -> at(maps:get(Name, Document, undefined), Names);
at({struct, Members}, [Name | Names]) -> at(proplists:get_value(Name, Members), Names);
at(_, _) -> undefined.

%% A handler of Cowboy.
init(Request, State) ->
    Asked = cowboy_req:header(<<"x-asked">>, Request),
    {Status, Text} =
        try {200, cowboy(cowboy_req:binding(way, Request), Asked, Request)}
        catch _:Error -> {400, refusal(Error)}
        end,
    {ok, cowboy_req:reply(Status, #{}, Text, Request), State}.

cowboy(<<"urlencoded">>, Asked, Request) ->
    {ok, Fields, _} = cowboy_req:read_urlencoded_body(Request, #{length => 8000000}),
    case lists:keyfind(Asked, 1, Fields) of
        {_, true} -> answer(<<>>); % a field without "="
        {_, Value} -> answer(Value);
        false -> answer(undefined)
    end;
cowboy(<<"multipart">>, Asked, Request) ->
    answer(part(Asked, Request, undefined));
cowboy(<<"json">>, Asked, Request) ->
    {ok, Body, _} = cowboy_req:read_body(Request, #{length => 8000000}),
    answer(at(json:decode(Body), names(Asked))).

%% The first part of the name.
part(Asked, Request, Found) ->
    case cowboy_req:read_part(Request) of
        {done, _} -> Found;
        {ok, Head, Rest} ->
            Disposition = cow_multipart:form_data(Head),
            {ok, Value, Next} = cowboy_req:read_part_body(Rest, #{length => 8000000}),
            Here =
                case Disposition of
                    {data, Asked} -> Value;
                    {file, Asked, Name, _} -> {file, Name};
                    _ -> undefined
                end,
            part(Asked, Next, case Found of undefined -> Here; _ -> Found end)
    end.

%% A loop of MochiWeb.
mochi(Request) ->
    "/" ++ Way = mochiweb_request:get(path, Request),
    Asked = mochiweb_request:get_header_value("X-Asked", Request),
    {Status, Text} =
        try {200, mochi(Way, Asked, Request)}
        catch _:Error -> {400, refusal(Error)}
        end,
    mochiweb_request:respond({Status, [{"Connection", "close"}], Text}, Request).

mochi("urlencoded", Asked, Request) ->
    field(proplists:get_value(Asked, mochiweb_request:parse_post(Request)));
mochi("multipart", Asked, Request) ->
    case proplists:get_value(Asked, mochiweb_multipart:parse_form(Request)) of
        {Name, _, _} -> answer({file, list_to_binary(Name)});
        Value -> field(Value)
    end;
mochi("json", Asked, Request) ->
    answer(at(mochijson2:decode(mochiweb_request:recv_body(8000000, Request)), names(list_to_binary(Asked)))).

%% MochiWeb has the bytes of texts in lists.
field(undefined) -> answer(undefined);
field(Value) -> answer(list_to_binary(Value)).
