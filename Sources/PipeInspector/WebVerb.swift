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
      + "server. It is for this machine alone where nothing else is said, and for who has the address: what "
      + "stands behind # is the right to read, and to send events where --read-only is not given. To see it "
      + "from elsewhere use ssh -L, or TLS.",
    options: [.topology] + Option.page,
    examples: [
      ("inspector web", "The topology that runs"),
      ("inspector web -p shop --port 8080 --read-only", "One of several, to look at only"),
      ("inspector web --socket page.socket", "For 'ssh -L 8080:/path/to/page.socket HOST'"),
      (
        "inspector web --address 0.0.0.0 --host page.example --tls-certificate page.pem --tls-key page.key",
        "For other machines, by TLS"
      ),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let place = try PagePlace(arguments)
    let (target, name) = try InspectorCommand.topology(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let listener = try place.listen()
    let token = WebGuard.makeToken()
    let guardian = WebGuard(
      hosts: place.hosts(port: listener.port), token: token,
      isReadOnly: arguments.flag("read-only"))
    let address = place.address(of: listener)
    let recording = LiveRecording(target, name: name)
    let service = WebService(recording, guardian: guardian)
    let server = try WebServer(listener, certificate: place.certificate) {
      await service.answer($0)
    }
    recording.start()
    InspectorCommand.say("topology '\(name)': \(address)#token=\(token)")
    InspectorCommand.serve(server, until: signals)
  }
}
