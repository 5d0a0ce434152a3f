import PipeInspector

/// The `inspector` command. It is a separate program, so that neither nodes nor the orchestrator
/// link a web server.
@main enum Inspector {
  static func main() { InspectorCommand.run(Array(CommandLine.arguments.dropFirst())) }
}
