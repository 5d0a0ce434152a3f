import PipeRuntime
import PipeSupervision

/// The program that serves the page: installed beside this one, since a web server is no part of it.
enum InspectorProgram {
  /// Its path.
  static func path() throws(CommandError) -> String {
    let own = OwnProcess.executablePath ?? FileSystem.absolute(CommandLine.arguments[0])
    let path = FileSystem.directory(of: own) + "/inspector"
    guard FileSystem.exists(path) else {
      throw CommandError(
        "there is no '\(path)': 'make build' makes it beside the orchestrator, and so does "
          + "'swift build --product inspector' in a debug build")
    }
    return path
  }

  /// Those options among what was given, as it takes them.
  static func words(_ arguments: ParsedArguments, of options: [Option]) -> [String] {
    arguments.options.filter { given in options.contains { $0.long == given.name } }
      .flatMap { $0.value.isEmpty ? ["--\($0.name)"] : ["--\($0.name)", $0.value] }
  }
}

/// The page of a run, served by a process that ends with it.
final class RunPage {
  private var child: ChildProcess

  /// How long it may take until it listens.
  private static let patience: Duration = .seconds(30)

  /// How long it may take to end in order, which removes its socket.
  private static let grace: Duration = .seconds(2)

  /// Starts it.
  /// - Parameters:
  ///   - words: How it is served, as `inspector web` takes it.
  ///   - tell: Told the address.
  init(of topology: String, _ words: [String], tell: (String) -> Void) throws {
    child = try ChildProcess.spawn(
      ChildCommand(
        path: try InspectorProgram.path(), arguments: ["web", "-p", topology] + words,
        environment: ProcessEnvironment.current, leadsSession: true))
    let deadline = ContinuousClock.now + Self.patience
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    var open: Set<Int32> = [child.output, child.error]
    while !output.contains(UInt8(ascii: "\n")), !open.isEmpty, ContinuousClock.now < deadline {
      for (descriptor, bytes) in PipeReader.read(&open, until: deadline) {
        if descriptor == child.output { output += bytes } else { errors += bytes }
      }
    }
    guard let line = output.split(separator: UInt8(ascii: "\n")).first else {
      end()
      let reason = String(decoding: errors.suffix(2_000), as: UTF8.self).printable
      throw CommandError(
        "the page is not served: "
          + (reason.isEmpty ? "'inspector web' has told no address" : reason))
    }
    tell(String(decoding: line, as: UTF8.self))
  }

  /// Ends it.
  func end() {
    child.signal(.terminate)
    let deadline = ContinuousClock.now + Self.grace
    var open: Set<Int32> = [child.output, child.error]
    while !open.isEmpty, ContinuousClock.now < deadline {
      _ = PipeReader.read(&open, until: deadline)
    }
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
  }
}
