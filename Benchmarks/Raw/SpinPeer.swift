import Glibc
import PipeRuntime
import PipeSupervision

/// The model checker SPIN, which searches one of our models as a baseline for our search.
final class SpinPeer {
  static let missing =
    "SPIN is missing, or a C compiler: 'apt-get install spin gcc' (tools for their figures only)"

  struct Result {
    let states: Int
    let steps: Int
    /// The duration of the search. Unit: seconds.
    let elapsed: Double
  }

  private let directory: TemporaryDirectory
  private let spin: String
  private let compiler: String

  /// Creates a peer; `nil` if SPIN or a C compiler is not installed.
  init?(in directory: TemporaryDirectory) {
    guard let spin = Programs.find("spin"),
      let compiler = Programs.find("cc") ?? Programs.find("clang")
    else { return nil }
    self.directory = directory
    self.spin = spin
    self.compiler = compiler
  }

  /// Searches all states of a Promela model on one thread, with SPIN's fastest exact settings.
  func search(_ promela: String, states: Int) throws -> Result {
    let path = directory.uniquePath("spin")
    guard mkdir(path, 0o700) == 0 else { throw SystemError("mkdir", on: path, code: errno) }
    try FileSystem.replace(path + "/model.pml", with: Array(promela.utf8))
    // Change the working directory, because SPIN writes files into it.
    let shell = "cd \(path) && "
    try run(shell + "\(spin) -a model.pml", "spin", path)
    try run(
      shell + "\(compiler) -O2 -w -DSAFETY -DNOREDUCE -DMEMLIM=3000 -o pan pan.c", "cc", path)
    // The hash table has at least two slots per state. The depth limit is the number of states.
    let bits = Int.bitWidth - (2 * states).leadingZeroBitCount
    let start = Clock.nanoseconds
    try run(shell + "./pan -m\(states + 1) -w\(bits) -c0", "pan", path)
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    let output = HostMachine.text(of: path + "/pan.out")
    guard let found = number(before: " states, stored", in: output),
      let transitions = number(before: " transitions (", in: output)
    else { throw HarnessError("SPIN wrote something else:\n\(output)") }
    // SPIN counts a transition to the initial state.
    return Result(states: found, steps: transitions - 1, elapsed: elapsed)
  }

  private func run(_ command: String, _ name: String, _ path: String) throws {
    let file = "\(path)/\(name).out"
    let output = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard output >= 0 else { throw SystemError("open", on: file, code: errno) }
    defer { close(output) }
    var process = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", command], environment: ProcessEnvironment.current,
        output: .descriptor(output)))
    guard let exit = process.wait(), exit == .exited(code: 0) else {
      throw HarnessError("\(name) failed:\n\(HostMachine.text(of: file))")
    }
  }

  private func number(before words: String, in text: String) -> Int? {
    text.split(separator: "\n").lazy.compactMap { line -> Int? in
      guard let range = line.firstRange(of: words) else { return nil }
      return line[..<range.lowerBound].split(separator: " ").last
        .flatMap { Double($0) }.map { Int($0) }
    }.first
  }
}
