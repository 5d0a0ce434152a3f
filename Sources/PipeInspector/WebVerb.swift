import PipeClient
import PipeInspection
import PipeSupport
import PipeSystem
import PipeWeb

/// `inspector web`
struct WebVerb: InspectorVerb {
  let description = CommandDescription(
    "web", of: InspectorCommand.program, "Shows a topology on a page in a browser",
    discussion:
      "It prints the address of a page, which shows nodes and pipes as they live, a node's states and "
      + "events, and what has led to what, and serves it until ^C. The page asks nothing of any other "
      + "server. It is for this machine alone, and for who has the address: what stands behind # is the "
      + "right to read, and to send events where --read-only is not given. Use ssh -L to see it from elsewhere.",
    options: [
      .topology,
      Option("port", value: .count("PORT"), "Where it listens; 0 is any that is free. Default: 0"),
      Option("read-only", "Takes no events, and changes no dead letters"),
    ],
    examples: [
      ("inspector web", "The topology that runs"),
      ("inspector web -p shop --port 8080 --read-only", "One of several, to look at only"),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let port = try InspectorCommand.port(arguments, default: 0)
    let name = try InspectorCommand.topology(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let listener = try WebListener(address: "127.0.0.1", port: port)
    let token = WebGuard.makeToken()
    let guardian = WebGuard(
      names: ["127.0.0.1", "localhost"], port: listener.port, token: token,
      isReadOnly: arguments.flag("read-only"))
    let place = listener.place
    let recording = LiveRecording(name)
    recording.start()
    let service = WebService(recording, guardian: guardian)
    let server = try WebServer(listener) { await service.answer($0) }
    InspectorCommand.say("topology '\(name)': http://\(place)/#token=\(token)")
    InspectorCommand.serve(server, until: signals)
  }
}
