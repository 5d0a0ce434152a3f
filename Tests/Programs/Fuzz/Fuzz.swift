import Glibc
import PipeRuntime

/// A parser or protocol that is fuzzed with arbitrary bytes. The target traps if a guarantee is
/// violated.
enum FuzzTarget: String, CaseIterable {
  case topology, deployment, json, frames, web

  func take(_ bytes: UnsafeRawBufferPointer) {
    switch self {
    case .topology: TopologyFuzz.take(bytes)
    case .deployment: DeploymentFuzz.take(bytes)
    case .json: JSONFuzz.take(bytes)
    case .frames: FrameFuzz.take(bytes)
    case .web: WebFuzz.take(bytes)
    }
  }
}

/// The fuzzer. `fuzz CORPUS` passes the files of a corpus to their targets; the corpus has a
/// directory for each target. With `--mutations`, the targets also get random mutations of these
/// files.
///
/// A build for libFuzzer (`tools/fuzz`) has the command line of libFuzzer instead. The variable
/// `FUZZ_TOPIC` then names the target.
@main
enum Fuzz {
  static func main() throws {
    #if FUZZING
      var count = CommandLine.argc
      var arguments = CommandLine.unsafeArgv
      exit(
        runDriver(&count, &arguments) { bytes, count in
          Fuzz.target.take(UnsafeRawBufferPointer(start: bytes, count: count))
          return 0
        })
    #else
      let description = CommandDescription(
        of: "fuzz", "Gives the files of a corpus to their topics",
        options: [
          Option(
            "topic", value: .choice("TOPIC", FuzzTarget.allCases.map(\.rawValue)),
            "Only this one. Default: all"),
          Option(
            "mutations", value: .count("COUNT"),
            "Gives so many inputs to each topic that chance makes of its files. Default: 0"),
          Option("seed", value: .count("SEED"), "What chance begins with. Default: 0"),
        ],
        positionals: [Positional("CORPUS", .directory, .one, "A directory with one for each topic")]
      )
      let arguments = description.parseOrExit(CommandLine.arguments.dropFirst())
      try replay(arguments)
    #endif
  }

  private static func replay(_ arguments: ParsedArguments) throws {
    let targets = arguments.value("topic").map { [FuzzTarget(rawValue: $0)].compactMap(\.self) }
    for target in targets ?? FuzzTarget.allCases {
      let folder = arguments.positionals[0] + "/" + target.rawValue
      let inputs = try FileSystem.entryNames(of: folder).sorted().map { file in
        guard let bytes = FileSystem.contents(of: folder + "/" + file) else {
          throw SystemError("read", on: folder + "/" + file, code: EIO)
        }
        return bytes
      }
      for input in inputs { input.withUnsafeBytes { target.take($0) } }
      print("\(target.rawValue): \(inputs.count) inputs")
      let count = arguments.countValue("mutations") ?? 0
      guard count > 0 else { continue }
      try mutate(inputs, count, seed: arguments.numberValue("seed") ?? 0, for: target)
      print("\(target.rawValue): \(count) mutations")
    }
  }

  /// Passes random mutations of inputs to a target. A file contains the latest mutation, to show
  /// which one ended the process.
  private static func mutate(
    _ inputs: [[UInt8]], _ count: Int, seed: UInt64, for target: FuzzTarget
  ) throws {
    var mutations = Mutations(of: inputs, seed: seed)
    let path = "fuzz-\(target.rawValue)-input"
    let file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(file) }
    for _ in 0..<count {
      let input = mutations.next()
      pwrite(file, input, input.count, 0)
      ftruncate(file, off_t(input.count))
      input.withUnsafeBytes { target.take($0) }
    }
    unlink(path)
  }

  #if FUZZING
    private static let target: FuzzTarget = {
      let name = getenv("FUZZ_TOPIC").map { String(cString: $0) } ?? ""
      guard let target = FuzzTarget(rawValue: name) else {
        print("set FUZZ_TOPIC to one of \(FuzzTarget.allCases.map(\.rawValue))")
        exit(2)
      }
      return target
    }()
  #endif
}

#if FUZZING
  /// The entry point of libFuzzer. Source: libFuzzer's FuzzerInterface.h.
  @_silgen_name("LLVMFuzzerRunDriver")
  private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ take: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
  ) -> CInt
#endif
