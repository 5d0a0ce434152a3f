// Links Dispatch, which CProcess calls.
import Dispatch
import Glibc
import PipeClient
import PipeSupport
import PipeSystem

/// A verb of the inspector, which serves until a signal stops it.
protocol InspectorVerb: Sendable {
  var description: CommandDescription { get }
  func run(_ arguments: ParsedArguments) throws -> Never
}

/// The command line of the inspector.
package enum InspectorCommand {
  static let program = "inspector"
  private static let verbs: [any InspectorVerb] = [WebVerb(), MetricsVerb()]

  /// Runs a command line, and ends the process.
  package static func run(_ arguments: [String]) -> Never {
    // If a reader has gone, a write fails.
    signal(SIGPIPE, SIG_IGN)
    OpenFileLimit.raise()
    let names = verbs.map(\.description.name)
    guard let name = arguments.first else { UsageError.missingVerb(of: program).exit(of: program) }
    if ["help", "--help", "-h"].contains(name) {
      print(overview, terminator: "")
      exit(0)
    }
    guard let verb = verbs.first(where: { $0.description.name == name }) else {
      UsageError.unknownVerb(
        name, suggestion: Suggestion.closest(to: name, among: names), of: program
      ).exit(of: program)
    }
    do {
      try verb.run(verb.description.parseOrExit(arguments.dropFirst()))
    } catch let error as UsageError {
      error.exit(of: program)
    } catch {
      StandardError.write("\(program): error: \(error)\n")
      exit(code(of: error))
    }
  }

  private static func code(of error: any Error) -> Int32 {
    switch error {
    case let error as TopologyClientError: error.exitCode
    case WebListenerError.invalidAddress, is WebAddressError: 2
    default: 1
    }
  }

  private static var overview: String {
    let help = HelpText()
    return """
      Usage: \(program) VERB [OPTIONS]

      Serves a page or metrics of a running topology.

      \(help.section("Verbs:", help.definitionList(verbs.map { ($0.description.name, $0.description.summary) })))

      Run '\(program) VERB --help' for more information about a verb.

      """
  }

  // MARK: Common options

  static func port(_ arguments: ParsedArguments, default port: UInt16) throws(UsageError) -> UInt16
  {
    guard let number = arguments.number("port") else { return port }
    guard let port = UInt16(exactly: number) else {
      throw .invalidValue(of: "--port", value: "\(number)", wanted: "ports are numbers up to 65535")
    }
    return port
  }

  /// Returns the server's certificate, if the options ask for TLS.
  static func certificate(_ arguments: ParsedArguments) throws -> WebCertificate? {
    switch (arguments.value("tls-certificate"), arguments.value("tls-key")) {
    case (let certificate?, let key?): try WebCertificate(certificate: certificate, key: key)
    case (nil, nil): nil
    case (_?, nil): throw WebAddressError.missing("tls-key", beside: "tls-certificate")
    case (nil, _?): throw WebAddressError.missing("tls-certificate", beside: "tls-key")
    }
  }

  /// Throws if an option for ports is combined with a socket in the file system.
  static func expectNoPort(_ arguments: ParsedArguments) throws(WebAddressError) {
    let others = ["port", "address", "tls-certificate", "tls-key"].filter(arguments.flag)
    guard others.isEmpty else { throw .conflictsWithSocket(others[0]) }
  }

  /// Returns the topology that the command line names, with its name. Without a name, it is the
  /// only running topology. A named topology need not run yet, and may run on another host.
  static func topology(
    _ arguments: ParsedArguments
  ) throws -> (target: TopologyTarget, name: String) {
    let target = try arguments.target
    if let remote = target.remote { return (target, remote.name) }
    guard let name = arguments.topology else {
      let name = try RunningTopology.choose(nil).topology
      return (.local(name), name)
    }
    do {
      _ = try RunningTopology.choose(name)
    } catch let error as TopologyClientError where error.exitCode == 3 {
      StandardError.write("\(program): \(error); waiting for the topology\n")
    }
    return (.local(name), name)
  }

  static func printLine(_ line: String) {
    print(line)
    // Standard output may be a file or a pipe, which is buffered.
    fflush(nil)
  }

  /// Serves requests until a signal arrives, then ends the process.
  static func serve(_ server: WebServer, until signals: SignalDescriptor) -> Never {
    var descriptor = pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0)
    while signals.next() == nil { poll(&descriptor, 1, -1) }
    server.stop()
    exit(0)
  }
}
