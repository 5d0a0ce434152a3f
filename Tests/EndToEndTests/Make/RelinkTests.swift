import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The target 'make build'", .timed)
struct RelinkTests {
  /// A stand-in for Swift that links a product if its file is missing.
  private static let swift = """
    [ "$1" = build ] || { echo 'Swift version 6.3.1 (swift-6.3.1-RELEASE)'; exit; }
    for product; do :; done
    [ -e .build/release/$product ] || { mkdir -p .build/release && echo $product | tee .build/release/$product; }
    """

  /// Runs 'make build' and returns the products that were linked.
  private static func build(_ checkout: CopiedTools) async throws -> [String] {
    let result = try await checkout.call("make", "build")
    #expect(result.code == 0, "\(result)")
    return result.output.split(separator: "\n").map(String.init).filter { !$0.contains(" ") }
  }

  @Test("'make build' links the programs again only if the function order file is newer")
  func order() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("swift", Self.swift)
    let programs = ["nodes", "orchestrator", "inspector"]
    #expect(try await Self.build(checkout) == programs)
    #expect(try await Self.build(checkout) == [])
    try await checkout.run("touch -d '1 minute' tools/start.order")
    #expect(try await Self.build(checkout) == programs)
    try await checkout.run("touch -d '1 hour ago' tools/start.order")
    #expect(try await Self.build(checkout) == [])
  }
}
