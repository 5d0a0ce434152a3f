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
  private static let maximumOutputByteCount = 64 << 20
  /// The maximum size of the arguments of one call. The kernel's limit is far higher. Unit: bytes.
  private static let maximumArgumentByteCount = 64 << 10

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

  /// Returns the descriptions of machines with given parameters, in the order of the requests. If a
  /// machine cannot be described, its description contains an error.
  func describe(
    _ requests: [DescriptionRequest], in program: String, environment: [String: String]
  ) throws(Failure) -> [MachineDescription] {
    var answers: [MachineDescription] = []
    var rest = requests[...]
    while !rest.isEmpty {
      var arguments = ["describe"]
      var size = 0
      while let request = rest.first, arguments.count == 1 || size < Self.maximumArgumentByteCount {
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
        within: timeout, limit: Self.maximumOutputByteCount)
    } catch {
      throw Failure("\(error)")
    }
    let advice =
      "check that the program is a node program, with an @main type that conforms to NodeProgram"
    switch answer.outcome {
    case .ended: break
    case .timedOut:
      throw Failure(
        "'\(program) \(arguments[0])' timed out after \(timeout.shortText); "
          + advice)
    case .outputTooLarge:
      throw Failure(
        "'\(program) \(arguments[0])' printed more than \(Self.maximumOutputByteCount >> 20) MiB, the limit "
          + "for machine descriptions; \(advice)")
    }
    guard answer.exit?.isSuccess == true else {
      throw Failure(
        "'\(program) \(arguments[0])' failed (\(answer.exit?.description ?? "?"))"
          + (answer.errorText.map { ": \($0)" } ?? ""))
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

  /// The directory that contains the orchestrator's own executable.
  let ownDirectory: String
  /// The directory of the topology file.
  let topologyDirectory: String
  let environment: [String: String]

  /// - Parameter directory: The directory of the topology file.
  init(directory: String) {
    ownDirectory = FileSystem.parentDirectory(
      of: OwnProcess.executablePath ?? CommandLine.arguments[0])
    topologyDirectory = directory
    environment = ProcessEnvironment.current
  }

  /// Returns the path of an executable. A relative path is resolved against the directory of the
  /// topology file. A name without a directory is searched for in the directory of the
  /// orchestrator, in the directory of the topology file, and in `PATH`.
  func locate(_ name: String) throws(Failure) -> String {
    let candidates: [String]
    if name.contains("/") {
      candidates = [name.hasPrefix("/") ? name : topologyDirectory + "/" + name]
    } else {
      let path = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
      candidates = ([ownDirectory, topologyDirectory] + path).map { $0 + "/" + name }
    }
    var foundPath: String?
    for candidate in candidates where access(candidate, F_OK) == 0 {
      if access(candidate, X_OK) == 0, !FileSystem.isDirectory(candidate) { return candidate }
      foundPath = foundPath ?? candidate
    }
    if let foundPath {
      throw FileSystem.isDirectory(foundPath) ? .directory(foundPath) : .notExecutable(foundPath)
    }
    let locations =
      name.contains("/")
      ? candidates : ["beside 'orchestrator'", "in \(topologyDirectory)", "in PATH"]
    throw .missing(name, searchedPaths: locations)
  }
}
