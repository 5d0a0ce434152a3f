import FoundationEssentials
import Glibc
import PipeRuntime

/// Asks node programs what they can host, by running them with `describe`.
struct ProgramDescriber {
  /// Why a program does not describe itself.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// The longest wait for an answer.
  let timeout: Duration
  /// The most that is read of an answer. Unit: bytes.
  private static let outputLimit = 64 << 20
  /// The most that is asked in one call, well below the kernel's limit on arguments.
  private static let argumentLimit = 64 << 10

  init(timeout: Duration) { self.timeout = timeout }

  /// Everything that the program registers, with default parameters.
  func describe(
    _ program: String, environment: [String: String]
  ) throws(Failure) -> ProgramDescription {
    let output = try run(program, ["describe"], environment: environment)
    do {
      let description = try JSONDecoder().decode(ProgramDescription.self, from: Data(output))
      let own = Int(FrameHeader.version)
      guard description.protocolVersion == own else {
        throw Failure(
          description: "'\(program)' speaks protocol version \(description.protocolVersion), and "
            + "this orchestrator \(own); build both from the same version of PipeRuntime")
      }
      return description
    } catch let failure as Failure {
      throw failure
    } catch {
      throw Failure(
        description: "'\(program) describe' printed no description; is it a node program, "
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
      guard let part = try? JSONDecoder().decode([MachineDescription].self, from: Data(output))
      else { throw Failure(description: "'\(program) describe' printed no descriptions") }
      answers += part
    }
    guard answers.count == requests.count else {
      throw Failure(description: "'\(program) describe' left descriptions out")
    }
    return answers
  }

  private func run(
    _ program: String, _ arguments: [String], environment: [String: String]
  ) throws(Failure) -> [UInt8] {
    var child: ChildProcess
    do {
      child = try ChildProcess.spawn(
        ChildCommand(path: program, arguments: arguments, environment: environment))
    } catch {
      throw Failure(description: "\(error)")
    }
    defer { child.closePipes() }
    var output: [UInt8] = []
    var errors: [UInt8] = []
    let deadline = ContinuousClock.now + timeout
    let ended = Self.drain(child, until: deadline, &output, &errors)
    if !ended { child.signal(.kill, group: true) }
    let exit = child.wait()
    guard ended else {
      throw Failure(
        description: "'\(program) \(arguments[0])' did not end within \(timeout.shortText); "
          + "is it a node program, with a type that is @main and NodeProgram?")
    }
    guard exit?.isSuccess == true else {
      let said = String(decoding: errors.prefix(2_000), as: UTF8.self).trimmed
      throw Failure(
        description: "'\(program) \(arguments[0])' ended with \(exit?.description ?? "?")"
          + (said.isEmpty ? "" : ": \(said)"))
    }
    return output
  }

  /// Reads both pipes until both are closed. Returns whether that came in time.
  private static func drain(
    _ child: ChildProcess, until deadline: ContinuousClock.Instant, _ output: inout [UInt8],
    _ errors: inout [UInt8]
  ) -> Bool {
    var open = [child.output, child.error]
    while !open.isEmpty {
      let left = deadline - .now
      guard left > .zero else { return false }
      var items = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      let wait = left.components.seconds * 1_000 + left.components.attoseconds / 1_000_000_000_000_000
      _ = poll(&items, nfds_t(items.count), Int32(min(wait + 1, 60_000)))
      for item in items where item.revents != 0 {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(item.fd, &buffer, buffer.count)
        if count > 0 {
          if item.fd == child.output { output += buffer[..<count] } else { errors += buffer[..<count] }
          if output.count + errors.count > outputLimit { return false }
        } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
          open.removeAll { $0 == item.fd }
        }
      }
    }
    return true
  }
}

extension String {
  fileprivate var trimmed: String {
    let isSpace: (Character) -> Bool = { $0.isWhitespace }
    return String(drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }
}
