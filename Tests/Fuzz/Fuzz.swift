import Glibc
import PipeRuntime

/// What is given arbitrary bytes; each traps where a promise does not hold.
enum FuzzTopic: String, CaseIterable {
  case topology, json, frames

  func take(_ bytes: UnsafeRawBufferPointer) {
    switch self {
    case .topology: TopologyFuzz.take(bytes)
    case .json: JSONFuzz.take(bytes)
    case .frames: FrameFuzz.take(bytes)
    }
  }
}

/// `fuzz CORPUS` gives the files of a corpus to their topics, a folder of it for each. Built for libFuzzer
/// (`tools/fuzz`), it is libFuzzer's command instead, on the topic that `FUZZ_TOPIC` names.
@main
enum Fuzz {
  static func main() throws {
    #if FUZZING
      var count = CommandLine.argc
      var arguments = CommandLine.unsafeArgv
      exit(
        runDriver(&count, &arguments) { bytes, count in
          Fuzz.topic.take(UnsafeRawBufferPointer(start: bytes, count: count))
          return 0
        })
    #else
      let description = CommandDescription(
        of: "fuzz", "Gives the files of a corpus to their topics",
        positionals: [Positional("CORPUS", .directory, .one, "A directory with one for each topic")]
      )
      let arguments = description.parseOrExit(CommandLine.arguments.dropFirst())
      try replay(arguments.positionals[0])
    #endif
  }

  private static func replay(_ corpus: String) throws {
    for topic in FuzzTopic.allCases {
      let folder = corpus + "/" + topic.rawValue
      let files = FileSystem.entries(of: folder).sorted()
      for file in files {
        guard let bytes = FileSystem.contents(of: folder + "/" + file) else {
          throw SystemError("read", on: folder + "/" + file, code: EIO)
        }
        bytes.withUnsafeBytes { topic.take($0) }
      }
      print("\(topic.rawValue): \(files.count) inputs")
    }
  }

  #if FUZZING
    private static let topic: FuzzTopic = {
      let name = getenv("FUZZ_TOPIC").map { String(cString: $0) } ?? ""
      guard let topic = FuzzTopic(rawValue: name) else {
        print("set FUZZ_TOPIC to one of \(FuzzTopic.allCases.map(\.rawValue))")
        exit(2)
      }
      return topic
    }()
  #endif
}

#if FUZZING
  /// Source: libFuzzer's FuzzerInterface.h.
  @_silgen_name("LLVMFuzzerRunDriver")
  private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ take: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
  ) -> CInt
#endif
