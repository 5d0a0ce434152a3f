import FoundationEssentials
import PipeRuntime
import PipeRuntimeTestKit
import PipeWire
import TestTraits
import Testing

@Suite("A program that evaluates single steps", .timed)
struct AskedProgramTests {
  @Test("A step evaluator ends when no process reads its answers any more, even while a step hangs")
  func unread() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let start = EvaluatorConfiguration(state: ["well": ["steps": 0]])
    let requests: [EvaluatorRequest] = [
      .open(node: "node", machine: "Fragile", parameters: [:], outs: []),
      .row(node: "node", configuration: start, inputs: [.take(event: "hang")]),
    ]
    let lines = try requests.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
    try tool.directory.write(lines.joined(separator: "\n") + "\n", to: "requests")
    // The shell waits for both programs. 'head' reads the first answer and exits.
    let program = try tool.start(
      program: "/bin/sh",
      ["-c", "\(CommandLineTool.products)/TestNodes explore < requests | head -n 1"])
    let result = try await tool.end(of: program, within: .seconds(60))
    #expect(result.output.contains("opened"), "\(result)")
  }

  @Test("A step evaluator that stops reading its requests is reported, because its answer is late")
  func unreading() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    // The program answers one request and then stops reading.
    try tool.directory.write(
      """
      #!/bin/sh
      case $1 in
      explore)
        read -r line
        printf '%s\\n' "$line" | '\(CommandLineTool.products)/TestNodes' explore
        exec sleep 1000
        ;;
      esac
      exec '\(CommandLineTool.products)/TestNodes' "$@"

      """, to: "deaf", mode: 0o755)
    // A text larger than a socket's buffer.
    let text = String(repeating: "a", count: 500_000)
    try tool.directory.write(
      """
      topology: deaf
      program: ./deaf
      nodes: { left: { machine: Automaton } }
      explore: { from_outside: { left: [{ word: { text: \(text) } }] } }
      """, to: "deaf.yaml")
    let result = try await tool.run(
      "check", "--explore", "deaf.yaml", within: .seconds(120), code: 1)
    #expect(result.output.contains("late-answer"), "\(result.output.suffix(2_000))")
  }
}
