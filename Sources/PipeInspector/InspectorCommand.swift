// Links Dispatch, which CProcess calls.
import Dispatch
import Glibc
import PipeClient
import PipeSupport
import PipeSystem

/// A verb of the `inspector` command. The verb serves requests until a signal stops the process.
protocol InspectorVerb: Sendable {
  var description: CommandDescription { get }
  func run(_ arguments: ParsedArguments) throws -> Never
}

/// The command line of the inspector.
package enum InspectorCommand {
  static let program = "inspector"
  private static let verbs: [any InspectorVerb] = [WebVerb(), MetricsVerb()]

  /// Runs a command line and ends the process.
  package static func run(_ arguments: [String]) -> Never {
    // A write to a closed connection must fail with an error, and must not end the process.
    signal(SIGPIPE, SIG_IGN)
    OpenFileLimit.raise()
    let names = verbs.map(\.description.name)
    guard let name = arguments.first else { UsageError.missingVerb(of: program).exit(of: program) }
    if ["help", "--help", "-h"].contains(name) {
      print(arguments.contains("--man") ? manualPage : overview, terminator: "")
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
    } catch let error as RunReadingError {
      exit(error.code)
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

  private static var manualPage: String {
    ManualPage(of: program).page(
      "serves a page or metrics of a running topology", verbs: verbs.map(\.description),
      exitCodes: [
        ("0", "ended by a signal"), ("1", "failed"), ("2", "wrong usage"),
        ("3", "the topology is not running"),
      ], related: ["orchestrator"])
  }

  // MARK: Options of several verbs

  static func port(_ arguments: ParsedArguments, default port: UInt16) throws(UsageError) -> UInt16
  {
    guard let number = arguments.numberValue("port") else { return port }
    guard let port = UInt16(exactly: number) else {
      throw .invalidValue(
        for: "--port", value: "\(number)", expected: "ports are numbers up to 65535")
    }
    return port
  }

  /// Returns the server's certificate if the options request TLS; otherwise `nil`.
  static func certificate(_ arguments: ParsedArguments) throws -> WebCertificate? {
    switch (arguments.value("tls-certificate"), arguments.value("tls-key")) {
    case (let certificate?, let key?): try WebCertificate(certificate: certificate, key: key)
    case (nil, nil): nil
    case (_?, nil): throw WebAddressError.missing("tls-key", beside: "tls-certificate")
    case (nil, _?): throw WebAddressError.missing("tls-certificate", beside: "tls-key")
    }
  }

  /// Throws an error if the command line contains both a socket in the file system and an option
  /// for a port.
  static func expectNoPort(_ arguments: ParsedArguments) throws(WebAddressError) {
    let others = ["port", "address", "tls-certificate", "tls-key"].filter(
      arguments.contains(option:))
    guard others.isEmpty else { throw .conflictsWithSocket(others[0]) }
  }

  /// Returns the topology that the command line names, and the topology's name. Without a name,
  /// returns the only running topology. A named topology does not have to be running yet, and may
  /// be on another host.
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
    // Standard output is buffered if it is a file or a pipe, so the address must be flushed.
    fflush(nil)
  }

  /// Serves requests until a signal arrives, and then ends the process.
  static func serve(_ server: WebServer, until signals: SignalDescriptor) -> Never {
    var descriptor = pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0)
    while signals.next() == nil { poll(&descriptor, 1, -1) }
    server.stop()
    exit(0)
  }
}
