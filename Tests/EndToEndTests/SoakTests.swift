import PipeRuntime
import PipeRuntimeTestKit
import Soak
import TestTraits
import Testing

@Suite("The soak test", .timed)
struct SoakTests {
  /// Runs the soak test to its end. Removes the files that the soak test keeps after a violation,
  /// except if `isExact`, which means that the test expects no violation.
  private static func soak(
    _ arguments: [String], isExact: Bool = false, within timeout: Duration = .seconds(180)
  ) async throws -> CommandLineTool.Result {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(program: try BinaryLocator.find("soak"), arguments)
    let result = try await tool.result(of: program, within: timeout)
    for line in result.output.split(separator: "\n") where !isExact {
      guard let place = line.firstRange(of: "are kept in ") else { continue }
      TestDirectory(existing: String(line[place.upperBound...])).remove()
    }
    return result
  }

  @Test("Random topologies without faults deliver every event once and in order")
  func calm() async throws {
    let result = try await Self.soak(
      ["--calm", "--durability", "none", "--seed", "5"], isExact: true)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("verdict: exact"))
    #expect(result.output.contains("0 lost, 0 repeated, 0 reordered"))
    #expect(!result.output.contains("topologies, 0 faults, 0 numbers"))
  }

  @Test(
    "A random topology on several hosts delivers every event once and in order",
    .enabled(
      if: HostCluster.missingRequirements() == nil,
      Comment(rawValue: HostCluster.missingRequirements() ?? "")))
  func calmHosts() async throws {
    let result = try await Self.soak(["--of", "hosts", "--calm", "--seed", "7"], isExact: true)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("verdict: exact"))
    #expect(result.output.contains("1 topologies, 0 faults"))
  }

  @Test("The soak test finds lost events in nodes without journals, and says how to repeat the run")
  func findsLosses() async throws {
    let result = try await Self.soak([
      "--durability", "none", "--seed", "7", "--faults", "30", "--round-faults", "30",
    ])
    #expect(result.code == 1, "\(result)")
    #expect(result.output.contains("verdict: VIOLATED"))
    #expect(result.output.contains("repeat with: soak --seed 7 --faults 30"))
    #expect(!result.output.contains(": 0 lost"))
  }

  @Test(
    "Every event arrives once and in order under a hundred random faults",
    .enabled(if: RecordedNodes.arePossible))
  func faults() async throws {
    let seed = UInt64.random(in: 1...999_999)
    let result = try await Self.soak(
      [
        "--seed", "\(seed)", "--faults", "100", "--round-faults", "50", "--time", "120s",
      ], isExact: true)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("0 lost, 0 repeated, 0 reordered"))
    #expect(result.output.contains("verdict: exact"))
  }

  @Test(
    "The soak test finds events that only some participants took, in composites without journals")
  func findsHalves() async throws {
    let result = try await Self.soak([
      "--of", "composites", "--durability", "none", "--seed", "7", "--faults", "30",
      "--round-faults", "30",
    ])
    #expect(result.code == 1, "\(result)")
    #expect(result.output.contains("whose caller received committed"), "\(result)")
    #expect(result.output.contains("repeat with: soak --of composites --seed 7 --faults 30"))
  }

  @Test(
    "Every synchronized event stays atomic under a hundred random faults",
    .enabled(if: RecordedNodes.arePossible))
  func composites() async throws {
    let seed = UInt64.random(in: 1...999_999)
    let result = try await Self.soak(
      [
        "--of", "composites", "--seed", "\(seed)", "--faults", "100", "--round-faults", "50",
        "--time", "120s",
      ], isExact: true)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("verdict: exact"))
    #expect(!result.output.contains("meetings: 0 committed"))
  }

  @Test(
    "Each event, timer and effect of an instance happens once under a hundred random faults",
    .enabled(if: RecordedNodes.arePossible))
  func instances() async throws {
    let seed = UInt64.random(in: 1...999_999)
    let result = try await Self.soak(
      [
        "--of", "instances", "--seed", "\(seed)", "--faults", "100", "--round-faults", "50",
        "--time", "120s",
      ], isExact: true)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("verdict: exact"))
  }

  @Test(
    "The soak test with wrong arguments exits 2 with an error that says what to do",
    arguments: [
      (["--sead", "1"], "\(UsageError.unknownOption("--sead", suggestion: "--seed", of: "soak"))"),
      (["--faults", "-1"], "invalid value '-1' for --faults: "),
      (["--round-faults", "0"], "invalid value '0' for --round-faults: "),
      (["--seed"], "\(UsageError.missingValue(option: "--seed", placeholder: "N"))"),
      (["--of", "fish"], "invalid value 'fish' for --of: "),
      (["--durability", "some"], "invalid value 'some' for --durability: "),
      (
        ["--of", "instances", "--durability", "none"], "invalid value 'none' for --durability: "
      ),
      (["--time", "1"], "invalid value '1' for --time: "),
      (["--faults", "0"], "invalid value '0' for --faults: "),
    ])
  func usage(arguments: [String], problem: String) async throws {
    let result = try await Self.soak(arguments, within: .seconds(20))
    #expect(result.code == 2)
    #expect(result.error.hasPrefix("soak: error: \(problem)"))
    #expect(result.output.isEmpty)
  }
}
