/// The command lines by which processes on Slurm's hosts are started, ended and asked for.
struct SlurmCommands: Sendable {
  private let tools: SlurmTools
  private let environment: [String: String]

  init(_ tools: SlurmTools, environment: [String: String]) {
    self.tools = tools
    self.environment = environment
  }

  /// Starts a process on its host.
  ///
  /// - Parameter input: A descriptor of what it is to read on standard input.
  func start(_ command: ChildCommand, as step: SlurmStep, input: Int32) -> ChildCommand {
    var started = command
    started.path = tools.path(.srun)
    started.arguments =
      options(of: step) + ["--quiet", "--no-kill", "--unbuffered", "-J", step.name, command.path]
      + command.arguments
    if step.job == nil { started.environment = Self.withoutJob(command.environment) }
    started.input = input
    return started
  }

  private func options(of step: SlurmStep) -> [String] {
    let place = ["-N1", "-n1", "-w", step.host, "--cpu-bind=none", "--mpi=none"]
    guard let job = step.job else { return place + ["--oversubscribe"] }
    // Many share a host, and what one asks for is not taken from the others.
    return place + ["--jobid=\(job)", "--overlap", "--mem=0"]
  }

  /// What an srun would take for the job that it is to start a step of.
  private static func withoutJob(_ environment: [String: String]) -> [String: String] {
    environment.filter { !$0.key.hasPrefix("SLURM_") || $0.key == "SLURM_CONF" }
  }

  /// Sends a signal to a process by its step, which srun does for few signals and not at all once it has ended.
  func end(_ step: SlurmStep, with signal: Int32) -> ChildCommand {
    let script = """
      "$1" -h -s --me -o '%i %j' | while read -r id name; do
        if [ "$name" = "$2" ]; then exec "$3" -s "$4" "$id"; fi
      done
      """
    return shell(
      script, [tools.path(.squeue), step.name, tools.path(.scancel), String(signal)])
  }

  /// Asks what Slurm knows of a process and its host; ``SlurmFindings`` reads the answer.
  /// - Parameter isInJob: Whether the host still is the job's, so that something can be run there.
  func ask(_ step: SlurmStep, isInJob: Bool) -> ChildCommand {
    let script = """
      "$1" -o show node "$2" || exit
      "$3" -h -s --me -o 'STEP %j' || exit
      echo ASKED
      shift 3
      if [ $# -gt 0 ]; then "$@" </dev/null >/dev/null 2>&1 && echo ANSWERS; fi
      """
    let probe =
      [tools.path(.srun)] + options(of: step)
      + ["--immediate=3", "-J", "\(step.name).probe", "true"]
    return shell(
      script,
      [tools.path(.scontrol), step.host, tools.path(.squeue)]
        + (isInJob && step.job != nil ? probe : []))
  }

  private func shell(_ script: String, _ arguments: [String]) -> ChildCommand {
    ChildCommand(
      path: "/bin/sh", arguments: ["-c", script, "sh"] + arguments, environment: environment)
  }
}
