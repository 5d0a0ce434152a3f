import PipeRuntime

/// Reads bytes as a topology file. The reader must either accept them, or reject them with a source
/// location. An accepted file must survive a round trip.
enum TopologyFuzz {
  static func take(_ bytes: UnsafeRawBufferPointer) {
    let topology: Topology
    do {
      topology = try TopologyReader.read(text: bytes, file: "fuzz.yaml").topology
    } catch {
      check(!error.diagnostics.isEmpty, "refused without a reason")
      for diagnostic in error.diagnostics {
        check("\(diagnostic)".hasPrefix("fuzz.yaml"), "a diagnostic without a place")
      }
      return
    }
    let text = topology.yaml
    do {
      let again = try TopologyReader.read(text: text.utf8, file: "again.yaml").topology
      check(again == topology, "read otherwise when it was written:\n\(text)")
    } catch {
      fail("what was read cannot be read when it was written: \(error)\n\(text)")
    }
  }
}
