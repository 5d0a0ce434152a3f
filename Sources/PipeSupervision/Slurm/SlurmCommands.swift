import Glibc
import PipeSystem
import PipeWire

/// The command lines by which processes on Slurm's hosts are started, ended and asked for.
struct SlurmCommands: Sendable {
  private let tools: SlurmTools
  private let environment: [String: String]

  init(_ tools: SlurmTools, environment: [String: String]) {
    self.tools = tools
    self.environment = environment
  }

  /// Starts a process on its host, where it first ends what a former orchestrator of the job may have left of it.
  /// - Parameters:
  ///   - owner: By which all processes of the node in this job are known.
  ///   - input: A descriptor of what it is to read on standard input.
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
          echo "\(NodeLogPrefix.error)a former process of it does not end on this host even on SIGKILL" >&2
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
    // It may be there on the other host alone.
    started.directory = nil
    return started
  }

  private func options(of step: SlurmStep) -> [String] {
    // Many share a host, and what one asks for is not taken from the others.
    [
      "-N1", "-n1", "-w", step.host, "--jobid=\(step.job)", "--overlap", "--mem=0",
      "--cpu-bind=none", "--mpi=none",
    ]
  }

  /// Of what a job tells its programs, an srun would take options that are not meant for it.
  private static func withoutJob(_ environment: [String: String]) -> [String: String] {
    environment.filter { !$0.key.hasPrefix("SLURM_") || $0.key == "SLURM_CONF" }
  }

  /// Sends a signal to a process by its step, which srun does for few signals and not at all once it has ended.
  /// - Parameter srun: The process that waits for the step; `nil` where it has ended. Where there is no step yet, it
  ///   is told to give up.
  func end(_ step: SlurmStep, with signal: Int32, srun: Int32?) -> ChildCommand {
    let script = """
      \(Self.findsStep)
      if [ -n "$id" ]; then exec "$3" -s "$4" $id; fi
      if [ -n "$5" ]; then kill -TERM "$5"; fi
      """
    return shell(
      script,
      [tools.path(.squeue), step.name, tools.path(.scancel), String(signal)]
        + [srun.map { String($0) } ?? ""])
  }

  /// Reads from now on what a process writes whose srun has nobody who reads that; it begins with the last lines from
  /// before.
  func attach(to step: SlurmStep) -> ChildCommand {
    let script = """
      \(Self.findsStep)
      if [ -z "$id" ]; then echo "there is no step '$2'" >&2; exit 1; fi
      exec "$3" --quiet "$id"
      """
    return shell(script, [tools.path(.squeue), step.name, tools.path(.sattach)])
  }

  /// With `squeue` and a step's name, sets `id`: empty where there is none.
  private static let findsStep = """
    steps=$("$1" -h -s --me -o '%i %j') || exit
    id=$(printf '%s\\n' "$steps" | while read -r id name; do
      if [ "$name" = "$2" ]; then echo "$id"; fi
    done)
    """

  /// Asks a host which of some processes it has; ``Verdict`` reads the answer.
  ///
  /// Slurm itself does not know: of a host that it has given up it lists steps that are gone, and none that go on.
  /// - Parameter place: A step on the host, of which this one is to be like.
  func ask(about names: [String], as place: SlurmStep) -> ChildCommand {
    // Who finds itself would find the other ones, which belong to the same user. A search that was cut short, on a host
    // that has no memory or no process to give, has no end, and says nothing.
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
          echo "\(Verdict.present.rawValue) $name"
        else
          echo "\(Verdict.gone.rawValue) $name"
        fi
      done
      """
    var environment = Self.withoutJob(environment)
    environment[Self.probeVariable] = place.name
    return ChildCommand(
      path: tools.path(.srun),
      arguments: options(of: place)
        + ["--quiet", "--immediate=3", "-J", place.name, "/bin/sh", "-c", script, "sh"]
        + [place.name] + names,
      environment: environment)
  }

  /// What a host says of a process.
  enum Verdict: String {
    case present = "PRESENT"
    case gone = "GONE"
    case unknown

    /// What an answer says of each of some processes.
    static func all(in answer: String) -> [String: Verdict] {
      var verdicts: [String: Verdict] = [:]
      for line in answer.split(separator: "\n") {
        let words = line.split(separator: " ")
        guard words.count == 2, let verdict = Verdict(rawValue: String(words[0])) else { continue }
        verdicts[String(words[1])] = verdict
      }
      return verdicts
    }
  }

  /// By which all processes of a node are known on their host.
  private static let ownerVariable = "PIPERUNTIME_NODE"
  /// By which a process is known on its host.
  private static let stepVariable = "PIPERUNTIME_STEP"
  private static let probeVariable = "PIPERUNTIME_PROBE"

  // MARK: Hosts that the job has lost

  /// Asks for a job that has a host, for as long as the topology runs; ``job(in:)`` reads the answer.
  /// - Parameters:
  ///   - name: By which the job is ended with the topology.
  ///   - jobs: Those that may have the host still.
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

  /// The job of an answer; `nil` where there is none.
  static func job(in answer: String) -> String? {
    answer.split(separator: "\n").compactMap { line in
      line.firstRange(of: grant).map { String(line[$0.upperBound...].prefix { $0.isNumber }) }
    }.first
  }

  /// Ends the jobs of a name.
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

/// The programs of Slurm's, and of the system's, that are called.
struct SlurmTools: Sendable {
  enum Tool: String, CaseIterable {
    case srun, salloc, sbatch, scontrol, squeue, scancel, sattach

    /// Whether nothing works without it: without `sattach`, logs of processes that were taken over end.
    fileprivate var isNeeded: Bool { self != .sattach }
  }

  private let paths: [Tool: String]
  private let environment: [String: String]
  /// The longest that an answer is waited for, where it is waited for.
  private static let patience: Duration = .seconds(15)
  private static let outputLimit = 16 << 20

  /// - Throws: ``SlurmError`` where one is not there.
  init(_ environment: [String: String]) throws(SlurmError) {
    self.environment = environment
    var paths: [Tool: String] = [:]
    let folders = (environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
    for tool in Tool.allCases {
      let path = folders.map { $0 + "/" + tool.rawValue }.first { access($0, X_OK) == 0 }
      guard path != nil || !tool.isNeeded else { throw .noTool(tool.rawValue) }
      paths[tool] = path
    }
    self.paths = paths
  }

  func path(_ tool: Tool) -> String { paths[tool] ?? tool.rawValue }

  /// Runs one and waits for its answer.
  /// - Parameter input: What it reads.
  /// - Throws: ``SlurmError``
  func ask(_ tool: Tool, _ arguments: [String], input: String = "") throws(SlurmError) -> String {
    let text = ([tool.rawValue] + arguments).joined(separator: " ")
    let script = #"input=$1; shift; printf %s "$input" | exec "$@""#
    do {
      let answer = try ChildAnswer.read(
        ChildCommand(
          path: "/bin/sh", arguments: ["-c", script, "sh", input, path(tool)] + arguments,
          environment: environment),
        within: Self.patience, limit: Self.outputLimit)
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

/// One process on a host of Slurm's: a step of a job that has the host.
struct SlurmStep: Hashable, Sendable {
  /// By which Slurm is asked for it: of no other process, nor of another start of this one.
  let name: String
  let host: String
  let job: String

  init(_ name: String, on host: String, in job: String) {
    self.name = name
    self.host = host
    self.job = job
  }
}
