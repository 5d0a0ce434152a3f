import PipeRuntime

/// Topology files: any bytes are either read, or refused with a source location. A file that was
/// read survives a round trip.
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
