import PipeSystem
import PipeTopology

/// A job of Slurm's that runs a topology on the hosts of its deployment.
package struct SlurmBatch {
  let name: String
  let hosts: [String]
  /// The command line of the orchestrator, without shell quotes.
  let command: [String]
  /// Options of `sbatch` as a line of its script has them; `nil` where there are none.
  let options: String?

  /// - Parameters:
  ///   - command: The command line of the orchestrator.
  ///   - options: Further options of `sbatch`, as one line.
  package init(_ topology: String, by deployment: Deployment, command: [String], options: String?) {
    name = topology
    var hosts: [String] = []
    for host in deployment.places.flatMap({ $0.hosts + $0.spare }) where !hosts.contains(host) {
      hosts.append(host)
    }
    self.hosts = hosts
    self.command = command
    self.options = options
  }

  /// The script that `sbatch` takes.
  ///
  /// The job stays when a host of it is lost, and is not started a second time: its processes may go on where Slurm
  /// does not see them. What it asked for beside itself ends with it.
  package var script: String {
    let line = command.map(Self.quoted).joined(separator: " ")
    return """
      #!/bin/sh
      #SBATCH --job-name=\(name)
      #SBATCH --nodes=\(hosts.count)
      #SBATCH --nodelist=\(hosts.joined(separator: ","))
      #SBATCH --no-kill
      #SBATCH --no-requeue
      \(options.map { "#SBATCH \($0)\n" } ?? "")trap 'kill -TERM "$orchestrator"' TERM INT
      \(line) &
      orchestrator=$!
      wait "$orchestrator"
      code=$?
      # A signal ends the waiting, not the orchestrator, which stops its nodes.
      while kill -0 "$orchestrator" 2>/dev/null; do
        wait "$orchestrator"
        code=$?
      done
      scancel --me --name="piperuntime-$SLURM_JOB_ID"
      exit "$code"

      """
  }

  private static func quoted(_ text: String) -> String {
    "'" + text.replacing("'", with: "'\\''") + "'"
  }

  /// Hands the job to Slurm.
  /// - Returns: Its number.
  /// - Throws: ``SlurmError``
  package func submit(
    _ environment: [String: String] = ProcessEnvironment.current
  ) throws -> String {
    let tools = try SlurmTools(environment)
    let answer = try tools.ask(.sbatch, ["--parsable"], input: script)
    // With several clusters the name of one follows.
    return String(answer.prefix { !$0.isWhitespace && $0 != ";" })
  }
}
