import PipeMachines
import PipeWire

/// Asks node programs what they can host, by running them with `describe`.
struct ProgramDescriber {
  /// Why a program does not describe itself.
  struct Failure: Error, CustomStringConvertible {
    let description: String
    fileprivate init(_ description: String) { self.description = description }
  }

  /// The longest wait for an answer.
  let timeout: Duration
  /// The most that is read of an answer. Unit: bytes.
  private static let outputLimit = 64 << 20
  /// The most that is asked in one call, well below the kernel's limit on arguments.
  private static let argumentLimit = 64 << 10

  /// Everything that the program registers, with default parameters.
  func describe(
    _ program: String, environment: [String: String]
  ) throws(Failure) -> ProgramDescription {
    let output = try run(program, ["describe"], environment: environment)
    do {
      let description = try JSONRecord.decode(ProgramDescription.self, from: output)
      let own = Int(FrameHeader.version)
      guard description.protocolVersion == own else {
        throw Failure(
          "'\(program)' speaks protocol version \(description.protocolVersion), and "
            + "this orchestrator \(own); build both from the same version of PipeRuntime")
      }
      return description
    } catch let failure as Failure {
      throw failure
    } catch {
      throw Failure(
        "'\(program) describe' printed no description; is it a node program, "
          + "with a type that is @main and NodeProgram?")
    }
  }

  /// Machines with given parameters: of each its description, or why there is none.
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
      else { throw Failure("'\(program) describe' printed no descriptions") }
      answers += part
    }
    guard answers.count == requests.count else {
      throw Failure("'\(program) describe' left descriptions out")
    }
    return answers
  }

  private func run(
    _ program: String, _ arguments: [String], environment: [String: String]
  ) throws(Failure) -> [UInt8] {
    let answer: ChildAnswer
    do {
      answer = try ChildAnswer.read(
        ChildCommand(path: program, arguments: arguments, environment: environment),
        within: timeout, limit: Self.outputLimit)
    } catch {
      throw Failure("\(error)")
    }
    let advice = "is it a node program, with a type that is @main and NodeProgram?"
    switch answer.ending {
    case .ended: break
    case .late:
      throw Failure(
        "'\(program) \(arguments[0])' did not end within \(timeout.shortText); "
          + advice)
    case .flooded:
      throw Failure(
        "'\(program) \(arguments[0])' wrote more than \(Self.outputLimit >> 20) MiB, "
          + "which is no description; \(advice)")
    }
    guard answer.exit?.isSuccess == true else {
      throw Failure(
        "'\(program) \(arguments[0])' ended with \(answer.exit?.description ?? "?")"
          + (answer.problem.map { ": \($0)" } ?? ""))
    }
    return answer.output
  }
}
