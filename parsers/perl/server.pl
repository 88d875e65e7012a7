#!/usr/bin/perl
# server.pl FRAMEWORK PORT serves one framework. It prints the version first.
#
# The first element of a path is the way to read, the header X-Asked the name that is asked for.
use strict;
use warnings;
use Encode ();
use JSON::PP ();

$| = 1;

my ($framework, $port) = @ARGV;
my $json = JSON::PP->new->allow_nonref->allow_blessed->allow_unknown;
my $name;    # that is asked for

# An object with a part's data, as Catalyst has, as a hash.
sub plain {
    my ($value) = @_;
    return $value if ref $value eq 'HASH' || ref $value eq 'ARRAY' || JSON::PP::is_bool($value) || !$value->can('raw_data');
    return { data => Encode::decode('UTF-8', $value->raw_data) };
}

# A value as an answer: a text of characters, or bytes that are UTF-8.
sub answer {
    my ($value) = @_;
    return 'none' unless defined $value;
    return 'other ' . Encode::encode_utf8($json->encode(plain($value))) if ref $value;
    my $text = eval { Encode::decode('UTF-8', my $copy = "$value", Encode::FB_CROAK) };
    return 'text ' . Encode::encode_utf8($json->encode(defined $text ? $text : "$value"));
}

# An answer for frameworks that encode it.
sub characters { return Encode::decode_utf8(answer(@_)) }

# What stands at a path of a document. No document but an object has any.
sub at {
    my ($document) = @_;
    return $document->{$name} unless $name eq 'user.email';
    return ref $document->{user} eq 'HASH' ? $document->{user}{email} : undef;
}

# CGI.pm reads its standard input.
sub cgi {
    my ($env) = @_;
    my $body = '';
    my $length = $env->{CONTENT_LENGTH} || 0;
    while (length $body < $length) {
        $env->{'psgi.input'}->read($body, $length - length $body, length $body) or last;
    }
    local %ENV = map { $_ => $env->{$_} } grep { /^[A-Z_]+$/ && defined $env->{$_} && !ref $env->{$_} } keys %$env;
    $ENV{GATEWAY_INTERFACE} = 'CGI/1.1';
    CGI::initialize_globals();
    open my $file, '+>', undef or die $!;
    binmode $file;
    print {$file} $body;
    seek $file, 0, 0;
    open STDIN, '<&', $file or die $!;
    my $value = CGI->new->param($name);
    return ref $value ? { file => 1 } : $value;
}

sub plack {
    my ($way, $env) = @_;
    return cgi($env) if $way eq 'cgi';
    my $request = Plack::Request->new($env);
    return scalar $request->parameters->get($name) if $way eq 'parameters';
    return at($way->new->utf8->decode($request->content));
}

if ($framework eq 'plack') {
    require Plack::Request;
    require HTTP::Server::PSGI;
    require CGI;
    require JSON::XS;
    require Cpanel::JSON::XS;
    no warnings 'once';
    $CGI::LIST_CONTEXT_WARN = 0;
    require Plack;
    print "Plack $Plack::VERSION, CGI.pm $CGI::VERSION, JSON::PP $JSON::PP::VERSION, JSON::XS $JSON::XS::VERSION, "
        . "Cpanel::JSON::XS $Cpanel::JSON::XS::VERSION\n";
    HTTP::Server::PSGI->new(host => '127.0.0.1', port => $port)->run(sub {
        my ($env) = @_;
        $name = $env->{HTTP_X_ASKED};
        my (undef, $way) = split m{/}, $env->{PATH_INFO};
        my $text = eval { answer(plack($way, $env)) };
        return [400, ['Content-Type', 'text/plain'], ["refused: $@"]] unless defined $text;
        return [200, ['Content-Type', 'text/plain'], [$text]];
    });
}
elsif ($framework eq 'mojolicious') {
    require Mojolicious;
    require Mojo::Server::Daemon;
    print "Mojolicious $Mojolicious::VERSION\n";
    my $app = Mojolicious->new;
    $app->log->level('fatal');
    $app->routes->post('/:way' => sub {
        my ($c) = @_;
        $name = $c->req->headers->header('X-Asked');
        my $way = $c->stash('way');
        my $text = eval {
            die "the request is refused\n" if $c->req->error;
            die "no JSON\n" if $way eq 'json' && !defined $c->req->json;
            answer($way eq 'json' ? at($c->req->json) : $c->param($name));
        };
        $c->render(data => defined $text ? $text : "refused: $@", status => defined $text ? 200 : 400);
    });
    Mojo::Server::Daemon->new(app => $app, listen => ["http://127.0.0.1:$port"], silent => 1)->run;
}
elsif ($framework eq 'dancer') {
    require HTTP::Server::PSGI;
    eval q{
        package Reader;
        use Dancer2;
        set logger => 'null';
        set charset => 'UTF-8';
        set show_errors => 0;
        post '/param' => sub { $name = request->header('X-Asked'); main::characters(param($name)) };
        post '/json' => sub {
            $name = request->header('X-Asked');
            my $document = eval { from_json(request->body) };
            unless (defined $document) { status 400; return 'refused' }
            my $text = eval { main::characters(main::at($document)) };
            unless (defined $text) { status 400; return 'refused' }
            $text;
        };
        1;
    } or die $@;
    print "Dancer2 $Dancer2::VERSION\n";
    HTTP::Server::PSGI->new(host => '127.0.0.1', port => $port)->run(Reader->to_app);
}
elsif ($framework eq 'catalyst') {
    require HTTP::Server::PSGI;
    eval q{
        package Reader::Controller::Root;
        use Moose;
        BEGIN { $INC{'Reader/Controller/Root.pm'} = 1; extends 'Catalyst::Controller' }
        __PACKAGE__->config(namespace => '');
        sub read :Path('/') :Args(1) {
            my ($self, $c, $way) = @_;
            $name = $c->req->header('X-Asked');
            my $text = eval {
                main::characters($way eq 'json' ? main::at($c->req->body_data) : $c->req->parameters->{$name});
            };
            $c->res->content_type('text/plain');
            $c->res->status(400) unless defined $text;
            $c->res->body(defined $text ? $text : "refused: $@");
        }
        package Reader;
        use Moose;
        BEGIN { extends 'Catalyst' }
        __PACKAGE__->config(name => 'Reader', encoding => 'UTF-8', home => '/', disable_component_resolution_regex_fallback => 1);
        __PACKAGE__->log(Catalyst::Log->new('fatal'));
        __PACKAGE__->setup;
        1;
    } or die $@;
    print "Catalyst $Catalyst::VERSION\n";
    HTTP::Server::PSGI->new(host => '127.0.0.1', port => $port)->run(Reader->psgi_app);
}
