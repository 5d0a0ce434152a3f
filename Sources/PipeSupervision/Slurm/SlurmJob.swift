import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The Slurm job whose hosts run the processes of a topology.
package struct SlurmJob: Hashable, Sendable {
  package let id: String
  /// For each host: its address according to Slurm, or its name if Slurm knows no address.
  let addresses: [String: String]

  package init(id: String, addresses: [String: String]) {
    self.id = id
    self.addresses = addresses
  }

  /// The environment variable that contains the id of the job. Source: srun(1).
  private static let variable = "SLURM_JOB_ID"
  /// The environment variable that contains the name of the host.
  private static let hostVariable = "SLURMD_NODENAME"

  /// Returns the job in which this process runs.
  /// - Throws: ``SlurmError``
  package static func current(
    _ environment: [String: String] = ProcessEnvironment.current
  ) throws -> SlurmJob {
    guard let id = environment[variable], !id.isEmpty else { throw SlurmError.noJob }
    let tools = try SlurmTools(environment)
    let job = SlurmRecord(try tools.ask(.scontrol, ["-o", "show", "job", id]))
    guard let list = job["NodeList"], list != "(null)" else { throw SlurmError.noHosts(job: id) }
    let answer = try tools.ask(.scontrol, ["-o", "show", "node", list])
    var addresses: [String: String] = [:]
    for line in answer.split(separator: "\n") {
      let record = SlurmRecord(String(line))
      guard let name = record["NodeName"] else { continue }
      addresses[name] = record["NodeAddr"] ?? name
    }
    return SlurmJob(id: id, addresses: addresses)
  }

  /// Returns the address of this host; `nil` if the job does not include this host.
  package func ownAddress(
    _ environment: [String: String] = ProcessEnvironment.current
  ) -> String? {
    environment[Self.hostVariable].flatMap { addresses[$0] }
  }

  /// Checks that the job includes the hosts of a deployment.
  /// - Returns: An error for each missing host, in the order of the deployment file.
  package func check(_ examined: DeploymentFile.Examination) -> [Diagnostic] {
    let known = addresses.keys.sorted()
    var diagnostics: [Diagnostic] = []
    for place in examined.deployment.places {
      for (key, hosts) in [("hosts", place.hosts), ("spare", place.spare)] {
        for host in hosts where addresses[host] == nil {
          diagnostics.append(
            examined.source.diagnostic(
              .unknownHost, at: ["places", place.name, key],
              "place '\(place.name)': host '\(host)' is not in job \(id)"
                + Suggestion.among(known, like: host, verb: "it has")))
        }
      }
    }
    return diagnostics.inFileOrder
  }
}

/// A line of `scontrol -o show`: words of the form `NAME=VALUE`.
struct SlurmRecord {
  private let values: [Substring: Substring]

  init(_ line: String) {
    var values: [Substring: Substring] = [:]
    for word in line.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      guard let sign = word.firstIndex(of: "=") else { continue }
      // If a value contains spaces, only the first word is kept. No caller reads such values.
      let name = word[..<sign]
      if values[name] == nil { values[name] = word[word.index(after: sign)...] }
    }
    self.values = values
  }

  subscript(name: String) -> String? { values[name[...]].map { String($0) } }
}

/// A Slurm batch job that runs a topology on the hosts of its deployment.
package struct SlurmBatch {
  let name: String
  let hosts: [String]
  /// The command line of the orchestrator, without shell quotes.
  let command: [String]
  /// Options of `sbatch`, which become one line of the batch script; `nil` if there are none.
  let sbatchOptions: String?

  /// - Parameters:
  ///   - command: The command line of the orchestrator.
  ///   - options: Additional options of `sbatch`, as one line.
  package init(_ topology: String, by deployment: Deployment, command: [String], options: String?) {
    name = topology
    var hosts: [String] = []
    for host in deployment.places.flatMap({ $0.hosts + $0.spare }) where !hosts.contains(host) {
      hosts.append(host)
    }
    self.hosts = hosts
    self.command = command
    self.sbatchOptions = options
  }

  /// The script for `sbatch`.
  ///
  /// The job continues when it loses a host. The job is not requeued, because its processes may
  /// still be running on hosts that Slurm cannot reach. The orchestrator requests additional jobs,
  /// which end together with this job.
  package var script: String {
    let line = command.map(Self.quoted).joined(separator: " ")
    return """
      #!/bin/sh
      #SBATCH --job-name=\(name)
      #SBATCH --nodes=\(hosts.count)
      #SBATCH --nodelist=\(hosts.joined(separator: ","))
      #SBATCH --no-kill
      #SBATCH --no-requeue
      \(sbatchOptions.map { "#SBATCH \($0)\n" } ?? "")trap 'kill -TERM "$orchestrator"' TERM INT
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

  /// Submits the job to Slurm.
  /// - Returns: The job id.
  /// - Throws: ``SlurmError``
  package func submit(
    _ environment: [String: String] = ProcessEnvironment.current
  ) throws -> String {
    let tools = try SlurmTools(environment)
    let answer = try tools.ask(.sbatch, ["--parsable"], input: script)
    // With several clusters, the answer also contains the name of the cluster.
    return String(answer.prefix { !$0.isWhitespace && $0 != ";" })
  }
}
