import PipeRuntime

/// A monitor that prints its parameters and an environment variable, and then waits until the
/// stream ends.
enum Alarm: ParameterizedMonitor {
  struct Parameters: MachineParameters { var limit = 9 }

  static func observe(_ states: StateStream, _ parameters: Parameters) async throws {
    print("alarm at \(parameters.limit), \(ProcessEnvironment.current["ALARM"] ?? "quiet")")
    for await _ in states {}
  }
}
