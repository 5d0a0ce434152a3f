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

  /// Returns a command that starts a process on its host, after killing any process of the same node
  /// that a former orchestrator of the job has left there.
  /// - Parameters:
  ///   - owner: The name by which all processes of the node in this job are identified.
  ///   - input: A descriptor with the standard input of the process.
  func start(
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
    started.input = input
    // The directory may exist only on the other host.
    started.directory = nil
    return started
  }

  private func options(of step: SlurmStep) -> [String] {
    // Many processes share a host, and the resources of one must not be taken away from the others.
    [
      "-N1", "-n1", "-w", step.host, "--jobid=\(step.job)", "--overlap", "--mem=0",
      "--cpu-bind=none", "--mpi=none",
    ]
  }

  /// Removes the job's variables: srun would take them for options.
  private static func withoutJob(_ environment: [String: String]) -> [String: String] {
    environment.filter { !$0.key.hasPrefix("SLURM_") || $0.key == "SLURM_CONF" }
  }

  /// Returns a command that sends a signal to a process through its step. srun can send only few
  /// signals, and none once it has ended.
  /// - Parameter srun: The srun process that waits for the step; `nil` if it has ended. If there is no
  ///   step yet, srun is terminated.
  func end(_ step: SlurmStep, with signal: Int32, srun: Int32?) -> ChildCommand {
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

  /// Returns a command that reads the output of a process whose srun has no reader, starting with the
  /// last lines before.
  func attach(to step: SlurmStep) -> ChildCommand {
    let script = """
      \(Self.stepLookupScript)
      if [ -z "$id" ]; then echo "no such step '$2'" >&2; exit 1; fi
      exec "$3" --quiet "$id"
      """
    return shell(script, [tools.path(.squeue), step.name, tools.path(.sattach)])
  }

  /// A script that sets `id` to the id of a step, from the path of `squeue` and the name of the step;
  /// `id` is empty if there is no such step.
  private static let stepLookupScript = """
    steps=$("$1" -h -s --me -o '%i %j') || exit
    id=$(printf '%s\\n' "$steps" | while read -r id name; do
      if [ "$name" = "$2" ]; then echo "$id"; fi
    done)
    """

  /// Returns a command that asks a host which of some processes it has; ``Verdict`` parses the answer.
  ///
  /// Slurm itself does not know. For a host that it has given up, it lists steps that are gone, and
  /// omits steps that still run.
  /// - Parameter probeStep: A step on the host, which determines the options of this one.
  func ask(about names: [String], as probeStep: SlurmStep) -> ChildCommand {
    // A search that finds itself can read the environments of the other processes, because they belong
    // to the same user. A search that was cut short, on a host without memory or process ids left, does
    // not print its end, and so reports nothing.
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

  /// The answer of a host about a process.
  enum ProcessPresence: String {
    case present = "PRESENT"
    case gone = "GONE"
    case unknown

    /// Returns the verdicts of an answer, by the names of the processes.
    static func all(in answer: String) -> [String: ProcessPresence] {
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

  /// The variable that identifies all processes of a node on their host.
  private static let ownerVariable = "PIPERUNTIME_NODE"
  /// The variable that identifies a process on its host.
  private static let stepVariable = "PIPERUNTIME_STEP"
  private static let probeVariable = "PIPERUNTIME_PROBE"

  // MARK: Hosts that the job has lost

  /// Returns a command that requests a job with a host, for as long as the topology runs; ``job(in:)``
  /// parses the answer.
  /// - Parameters:
  ///   - name: The name by which the job is ended together with the topology.
  ///   - jobs: The jobs that may still have the host.
  func take(_ host: String, as name: String, unlessIn jobs: [String]) -> ChildCommand {
    let script = """
      salloc=$1 squeue=$2 scontrol=$3 host=$4 name=$5
      shift 5
      for job; do
        hosts=$("$squeue" -h -j "$job" -t R -o %N 2>/dev/null)
        if [ -n "$hosts" ] && "$scontrol" show hostnames "$hosts" | grep -qx "$host"; then
          echo "\(Self.grant)$job"
          exit
        fi
      done
      exec "$salloc" -N1 -n1 -w "$host" --no-shell --no-kill --immediate=3 -J "$name" 2>&1
      """
    return shell(
      script, [SlurmTools.Tool.salloc, .squeue, .scontrol].map(tools.path) + [host, name] + jobs)
  }

  private static let grant = "Granted job allocation "

  /// Returns the job id in an answer; `nil` if there is none.
  static func job(in answer: String) -> String? {
    answer.split(separator: "\n").compactMap { line in
      line.firstRange(of: grant).map { String(line[$0.upperBound...].prefix { $0.isNumber }) }
    }.first
  }

  /// Returns a command that ends the jobs with a name.
  func endJobs(_ name: String) -> ChildCommand {
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

    /// Whether the tool is required. Without `sattach`, only the logs of adopted processes end.
    fileprivate var isRequired: Bool { self != .sattach }
  }

  private let paths: [Tool: String]
  private let environment: [String: String]
  /// The maximum time for an answer of a tool that is called synchronously.
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
          command: text, reason: answer.problem ?? "\(answer.exit.map { "\($0)" } ?? "?")")
      }
      return String(decoding: answer.output, as: UTF8.self)
    } catch let error as SlurmError {
      throw error
    } catch {
      throw .failed(command: text, reason: "\(error)")
    }
  }
}

/// One process on a host of a Slurm job: a step of a job that has the host.
struct SlurmStep: Hashable, Sendable {
  /// The name of the step in Slurm, unique to this start of the process.
  let name: String
  let host: String
  let job: String

  init(_ name: String, on host: String, in job: String) {
    self.name = name
    self.host = host
    self.job = job
  }
}
