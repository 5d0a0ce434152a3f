import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// Asks node programs for their descriptions, by running them with `describe`.
struct ProgramDescriber {
  /// The reason why a program does not describe itself.
  struct Failure: Error, CustomStringConvertible {
    let description: String
    fileprivate init(_ description: String) { self.description = description }
  }

  /// The maximum time for an answer.
  let timeout: Duration
  /// The maximum size of an answer. Unit: bytes.
  private static let outputLimit = 64 << 20
  /// The maximum size of the arguments of one call, well below the kernel's limit. Unit: bytes.
  private static let argumentLimit = 64 << 10

  /// Returns the description of all machines that the program registers, with default parameters.
  func describe(
    _ program: String, environment: [String: String]
  ) throws(Failure) -> ProgramDescription {
    let output = try run(program, ["describe"], environment: environment)
    do {
      let description = try JSONRecord.decode(ProgramDescription.self, from: output)
      let own = Int(FrameHeader.version)
      guard description.protocolVersion == own else {
        throw Failure(
          "protocol version mismatch: '\(program)' has version \(description.protocolVersion), and "
            + "the orchestrator has version \(own); build both with the same version of PipeRuntime"
        )
      }
      return description
    } catch let failure as Failure {
      throw failure
    } catch {
      throw Failure(
        "'\(program) describe' printed no machine descriptions; check that the program is a node "
          + "program, with an @main type that conforms to NodeProgram")
    }
  }

  /// Returns the descriptions of machines with given parameters. A description that cannot be made has
  /// a `problem`.
  func describe(
    _ requests: [DescriptionRequest], in program: String, environment: [String: String]
  ) throws(Failure) -> [MachineDescription] {
    var answers: [MachineDescription] = []
    var rest = requests[...]
    while !rest.isEmpty {
      var arguments = ["describe"]
      var size = 0
      while let request = rest.first, arguments.count == 1 || size < Self.argumentLimit {
        arguments += request.arguments
        size += request.parameters.text.utf8.count + request.machine.utf8.count
        rest = rest.dropFirst()
      }
      let output = try run(program, arguments, environment: environment)
      guard let part = try? JSONRecord.decode([MachineDescription].self, from: output)
      else { throw Failure("'\(program) describe' printed invalid machine descriptions") }
      answers += part
    }
    guard answers.count == requests.count else {
      throw Failure("'\(program) describe' printed too few machine descriptions")
    }
    return answers
  }

  private func run(
    _ program: String, _ arguments: [String], environment: [String: String]
  ) throws(Failure) -> [UInt8] {
    let answer: ChildOutput
    do {
      answer = try ChildOutput.read(
        ChildCommand(path: program, arguments: arguments, environment: environment),
        within: timeout, limit: Self.outputLimit)
    } catch {
      throw Failure("\(error)")
    }
    let advice =
      "check that the program is a node program, with an @main type that conforms to NodeProgram"
    switch answer.ending {
    case .ended: break
    case .timedOut:
      throw Failure(
        "'\(program) \(arguments[0])' timed out after \(timeout.shortText); "
          + advice)
    case .outputTooLarge:
      throw Failure(
        "'\(program) \(arguments[0])' printed more than \(Self.outputLimit >> 20) MiB, the limit "
          + "for machine descriptions; \(advice)")
    }
    guard answer.exit?.isSuccess == true else {
      throw Failure(
        "'\(program) \(arguments[0])' failed (\(answer.exit?.description ?? "?"))"
          + (answer.problem.map { ": \($0)" } ?? ""))
    }
    return answer.output
  }
}

/// Finds the executables that a topology names.
struct ProgramLocator {
  /// The reason why a program cannot be run.
  enum Failure: Error, CustomStringConvertible {
    case missing(String, searchedPaths: [String])
    case directory(String)
    case notExecutable(String)

    var description: String {
      switch self {
      case .missing(let name, let searchedPaths):
        "no such program '\(name)'; searched: \(searchedPaths.joined(separator: ", ")); build the "
          + "program, or specify its path"
      case .directory(let path): "'\(path)' is a directory; specify a program in the directory"
      case .notExecutable(let path):
        "'\(path)' is not executable; run 'chmod +x \(path)', or specify another program"
      }
    }
  }

  /// The directory of the orchestrator's own executable.
  let own: String
  /// The directory of the topology file.
  let file: String
  let environment: [String: String]

  /// - Parameter directory: The directory of the topology file.
  init(directory: String) {
    own = FileSystem.directory(of: OwnProcess.executablePath ?? CommandLine.arguments[0])
    file = directory
    environment = ProcessEnvironment.current
  }

  /// Returns the path of an executable. A path is relative to the directory of the topology file. A
  /// bare name is searched for beside the orchestrator, beside the file, and in `PATH`.
  func locate(_ name: String) throws(Failure) -> String {
    let candidates: [String]
    if name.contains("/") {
      candidates = [name.hasPrefix("/") ? name : file + "/" + name]
    } else {
      let path = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
      candidates = ([own, file] + path).map { $0 + "/" + name }
    }
    var found: String?
    for candidate in candidates where access(candidate, F_OK) == 0 {
      if access(candidate, X_OK) == 0, !FileSystem.isDirectory(candidate) { return candidate }
      found = found ?? candidate
    }
    if let found { throw FileSystem.isDirectory(found) ? .directory(found) : .notExecutable(found) }
    let locations =
      name.contains("/") ? candidates : ["beside 'orchestrator'", "in \(file)", "in PATH"]
    throw .missing(name, searchedPaths: locations)
  }
}
