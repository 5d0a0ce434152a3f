import PipeRuntime

/// Reads bytes as a deployment file. The reader must either accept them, or reject them with a
/// source location. An accepted file must survive a round trip.
enum DeploymentFuzz {
  static func take(_ bytes: UnsafeRawBufferPointer) {
    let deployment: Deployment
    do {
      deployment = try DeploymentFile.read(text: bytes, file: "fuzz.yaml").deployment
    } catch {
      check(!error.diagnostics.isEmpty, "refused without a reason")
      for diagnostic in error.diagnostics {
        check("\(diagnostic)".hasPrefix("fuzz.yaml"), "a diagnostic without a place")
      }
      return
    }
    let text = deployment.yaml
    do {
      let again = try DeploymentFile.read(text: text.utf8, file: "again.yaml").deployment
      check(again == deployment, "read otherwise when it was written:\n\(text)")
    } catch {
      fail("what was read cannot be read when it was written: \(error)\n\(text)")
    }
  }
}
