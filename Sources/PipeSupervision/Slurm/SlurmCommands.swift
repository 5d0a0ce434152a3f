import Glibc
import PipeSystem
import PipeWire

/// The command lines that start, end and look up processes on the hosts of a Slurm job.
struct SlurmCommands: Sendable {
  private let tools: SlurmTools
  private let environment: [String: String]

  init(_ tools: SlurmTools, environment: [String: String]) {
    self.tools = tools
    self.environment = environment
  }

  /// Returns a command that starts a process on its host. The command first kills processes of the
  /// same node that a former orchestrator of the job has left on this host.
  /// - Parameters:
  ///   - owner: The text that identifies all processes of the node in this job.
  ///   - input: A descriptor from which the process reads its standard input.
  func startCommand(
    _ command: ChildCommand, as step: SlurmStep, of owner: String, input: Int32
  ) -> ChildCommand {
    let script = """
      own=$1
      shift
      for environ in $(grep -lszFx "$own" /proc/[0-9]*/environ); do
        process=${environ#/proc/}
        kill -9 "${process%/environ}" 2>/dev/null
      done
      waited=0
      while grep -qszFx "$own" /proc/[0-9]*/environ; do
        waited=$((waited + 1))
        if [ "$waited" -gt 100 ]; then
          echo "\(NodeLogPrefix.error)a former process of the node did not exit on this host after SIGKILL" >&2
          exit 1
        fi
        sleep 0.1
      done
      exec env "$own" "$@"
      """
    var started = command
    started.path = tools.path(.srun)
    started.arguments =
      options(of: step) + (command.directory.map { ["--chdir", $0] } ?? [])
      + ["--quiet", "--no-kill", "--unbuffered", "-J", step.name, "/bin/sh", "-c", script, "sh"]
      + ["\(Self.ownerVariable)=\(owner)", command.path] + command.arguments
    started.environment = Self.withoutJob(command.environment)
    started.environment[Self.stepVariable] = step.name
    started.inputDescriptor = input
    // The working directory may exist only on the other host.
    started.directory = nil
    return started
  }

  private func options(of step: SlurmStep) -> [String] {
    // Many processes share a host, so no process may reserve resources that others need.
    [
      "-N1", "-n1", "-w", step.host, "--jobid=\(step.jobID)", "--overlap", "--mem=0",
      "--cpu-bind=none", "--mpi=none",
    ]
  }

  /// Removes the variables of the job, since srun would use them as options.
  private static func withoutJob(_ environment: [String: String]) -> [String: String] {
    environment.filter { !$0.key.hasPrefix("SLURM_") || $0.key == "SLURM_CONF" }
  }

  /// Returns a command that sends a signal to a process through its step. The command does not use
  /// srun, which forwards only a few signals, and only while it is running.
  /// - Parameter srun: The id of the srun process that waits for the step; `nil` if srun has ended.
  ///   If the step does not exist yet, the command terminates this srun.
  func signalCommand(_ step: SlurmStep, with signal: Int32, srun: Int32?) -> ChildCommand {
    let script = """
      \(Self.stepLookupScript)
      if [ -n "$id" ]; then exec "$3" -s "$4" $id; fi
      if [ -n "$5" ]; then kill -TERM "$5"; fi
      """
    return shell(
      script,
      [tools.path(.squeue), step.name, tools.path(.scancel), String(signal)]
        + [srun.map { String($0) } ?? ""])
  }

  /// Returns a command that reads the output of a process whose former reader has ended. The
  /// command first repeats a few lines that were written before.
  func attachCommand(to step: SlurmStep) -> ChildCommand {
    let script = """
      \(Self.stepLookupScript)
      if [ -z "$id" ]; then echo "no such step '$2'" >&2; exit 1; fi
      exec "$3" --quiet "$id"
      """
    return shell(script, [tools.path(.squeue), step.name, tools.path(.sattach)])
  }

  /// A script that sets `id` to the id of a step. Its arguments are the path of `squeue` and the
  /// name of the step. If there is no such step, `id` is empty.
  private static let stepLookupScript = """
    steps=$("$1" -h -s --me -o '%i %j') || exit
    id=$(printf '%s\\n' "$steps" | while read -r id name; do
      if [ "$name" = "$2" ]; then echo "$id"; fi
    done)
    """

  /// Returns a command that asks a host which of the named processes are running there.
  /// ``ProcessPresence`` parses the answer.
  ///
  /// Slurm itself does not know which processes are running. For a host that Slurm has given up,
  /// Slurm lists steps that have ended, and omits steps that are still running.
  /// - Parameters:
  ///   - names: The names of the processes' steps.
  ///   - probeStep: A step on the host. The command runs as this step.
  func presenceQuery(about names: [String], as probeStep: SlurmStep) -> ChildCommand {
    // The script answers only if the search has found the script's own process, and was completed.
    // The first condition shows that the search can read the environments of this user's processes.
    // The second condition fails if the host has no memory or process ids left.
    let script = """
      probe=$1
      shift
      found=$({
        grep -hsazo "^\\(\(Self.stepVariable)\\|\(Self.probeVariable)\\)=[^ ]*" /proc/[0-9]*/environ
        echo "end=$?"
      } | tr '\\0' '\\n')
      newline='
      '
      has() { case "$newline$found$newline" in *"$newline$1$newline"*) ;; *) return 1 ;; esac; }
      has "\(Self.probeVariable)=$probe" || exit
      has end=0 || has end=2 || exit
      for name; do
        if has "\(Self.stepVariable)=$name"; then
          echo "\(ProcessPresence.present.rawValue) $name"
        else
          echo "\(ProcessPresence.gone.rawValue) $name"
        fi
      done
      """
    var environment = Self.withoutJob(environment)
    environment[Self.probeVariable] = probeStep.name
    return ChildCommand(
      path: tools.path(.srun),
      arguments: options(of: probeStep)
        + ["--quiet", "--immediate=3", "-J", probeStep.name, "/bin/sh", "-c", script, "sh"]
        + [probeStep.name] + names,
      environment: environment)
  }

  /// A host's answer about a process.
  enum ProcessPresence: String {
    case present = "PRESENT"
    case gone = "GONE"
    case unknown

    /// Parses an answer. Returns the presence of each process, by the name of its step.
    static func presences(in answer: String) -> [String: ProcessPresence] {
      var presences: [String: ProcessPresence] = [:]
      for line in answer.split(separator: "\n") {
        let words = line.split(separator: " ")
        guard words.count == 2, let presence = ProcessPresence(rawValue: String(words[0])) else {
          continue
        }
        presences[String(words[1])] = presence
      }
      return presences
    }
  }

  /// The environment variable that identifies all processes of a node on their host.
  private static let ownerVariable = "PIPERUNTIME_NODE"
  /// The environment variable that identifies a process on its host.
  private static let stepVariable = "PIPERUNTIME_STEP"
  private static let probeVariable = "PIPERUNTIME_PROBE"

  // MARK: Hosts that the job has lost

  /// Returns a command that requests a job with a host. The job lasts as long as the topology runs.
  /// ``jobID(in:)`` parses the answer.
  /// - Parameters:
  ///   - name: The name of the job. When the topology ends, the job is ended by this name.
  ///   - jobs: The jobs that may still include the host. If one of these jobs includes the host,
  ///     the command answers with that job, and requests no other job.
  func allocationCommand(_ host: String, as name: String, unlessIn jobs: [String]) -> ChildCommand {
    let script = """
      salloc=$1 squeue=$2 scontrol=$3 host=$4 name=$5
      shift 5
      for job; do
        hosts=$("$squeue" -h -j "$job" -t R -o %N 2>/dev/null)
        if [ -n "$hosts" ] && "$scontrol" show hostnames "$hosts" | grep -qx "$host"; then
          echo "\(Self.grantPrefix)$job"
          exit
        fi
      done
      exec "$salloc" -N1 -n1 -w "$host" --no-shell --no-kill --immediate=3 -J "$name" 2>&1
      """
    return shell(
      script, [SlurmTools.Tool.salloc, .squeue, .scontrol].map(tools.path) + [host, name] + jobs)
  }

  private static let grantPrefix = "Granted job allocation "

  /// Returns the job id in an answer; `nil` if the answer contains none.
  static func jobID(in answer: String) -> String? {
    answer.split(separator: "\n").compactMap { line in
      line.firstRange(of: grantPrefix).map { String(line[$0.upperBound...].prefix { $0.isNumber }) }
    }.first
  }

  /// Returns a command that ends the jobs with this name.
  func endJobsCommand(named name: String) -> ChildCommand {
    ChildCommand(
      path: tools.path(.scancel), arguments: ["--me", "--name=\(name)"],
      environment: Self.withoutJob(environment))
  }

  private func shell(_ script: String, _ arguments: [String]) -> ChildCommand {
    ChildCommand(
      path: "/bin/sh", arguments: ["-c", script, "sh"] + arguments,
      environment: Self.withoutJob(environment))
  }
}

/// The Slurm programs that the orchestrator calls.
struct SlurmTools: Sendable {
  enum Tool: String, CaseIterable {
    case srun, salloc, sbatch, scontrol, squeue, scancel, sattach

    /// Whether the tool is required. Without `sattach`, everything works except that the output of
    /// adopted processes is not logged.
    fileprivate var isRequired: Bool { self != .sattach }
  }

  private let paths: [Tool: String]
  private let environment: [String: String]
  /// How long the orchestrator waits for the answer of a tool before it kills the tool.
  private static let timeout: Duration = .seconds(15)
  private static let outputLimit = 16 << 20

  /// - Throws: ``SlurmError`` if a required tool is missing.
  init(_ environment: [String: String]) throws(SlurmError) {
    self.environment = environment
    var paths: [Tool: String] = [:]
    let folders = (environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
    for tool in Tool.allCases {
      let path = folders.map { $0 + "/" + tool.rawValue }.first { access($0, X_OK) == 0 }
      guard path != nil || !tool.isRequired else { throw .noTool(tool.rawValue) }
      paths[tool] = path
    }
    self.paths = paths
  }

  func path(_ tool: Tool) -> String { paths[tool] ?? tool.rawValue }

  /// Runs a tool and waits for its answer.
  /// - Parameter input: The standard input of the tool.
  /// - Throws: ``SlurmError``
  func ask(_ tool: Tool, _ arguments: [String], input: String = "") throws(SlurmError) -> String {
    let text = ([tool.rawValue] + arguments).joined(separator: " ")
    let script = #"input=$1; shift; printf %s "$input" | exec "$@""#
    do {
      let answer = try ChildOutput.read(
        ChildCommand(
          path: "/bin/sh", arguments: ["-c", script, "sh", input, path(tool)] + arguments,
          environment: environment),
        within: Self.timeout, limit: Self.outputLimit)
      guard answer.exit?.isSuccess == true else {
        throw SlurmError.failed(
          command: text, reason: answer.errorText ?? "\(answer.exit.map { "\($0)" } ?? "?")")
      }
      return String(decoding: answer.output, as: UTF8.self)
    } catch let error as SlurmError {
      throw error
    } catch {
      throw .failed(command: text, reason: "\(error)")
    }
  }
}

/// A process on a host of a Slurm job. Slurm runs the process as a step of a job that includes the
/// host.
struct SlurmStep: Hashable, Sendable {
  /// The name of the step in Slurm. Each start of a process has another name.
  let name: String
  let host: String
  let jobID: String

  init(_ name: String, on host: String, in job: String) {
    self.name = name
    self.host = host
    self.jobID = job
  }
}
