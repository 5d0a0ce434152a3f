import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The job of Slurm's within which the processes of a topology are started, and the hosts that it has.
package struct SlurmJob: Hashable, Sendable {
  package let id: String
  /// Where each of its hosts is, as Slurm knows it: an address, or a name.
  let addresses: [String: String]

  package init(id: String, addresses: [String: String]) {
    self.id = id
    self.addresses = addresses
  }

  /// The variable that names the job to what runs in it. Source: srun(1).
  private static let variable = "SLURM_JOB_ID"
  /// The variable that names the host to what runs on it.
  private static let hostVariable = "SLURMD_NODENAME"

  /// The job in which this process runs.
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

  /// Where this process runs, where that is a host of the job's.
  package func ownAddress(
    _ environment: [String: String] = ProcessEnvironment.current
  ) -> String? {
    environment[Self.hostVariable].flatMap { addresses[$0] }
  }

  /// The hosts of a deployment that the job does not have.
  /// - Returns: An error for each, in the order of the file.
  package func check(_ examined: DeploymentFile.Examined) -> [Diagnostic] {
    let known = addresses.keys.sorted()
    var found: [Diagnostic] = []
    for place in examined.deployment.places {
      for (key, hosts) in [("hosts", place.hosts), ("spare", place.spare)] {
        for host in hosts where addresses[host] == nil {
          found.append(
            examined.source.diagnostic(
              .unknownHost, at: ["places", place.name, key],
              "place '\(place.name)': host '\(host)' is not one of job \(id)'s"
                + Suggestion.among(known, like: host, verb: "it has")))
        }
      }
    }
    return found.inFileOrder
  }
}

/// A line of `scontrol -o show`: words `NAME=VALUE`.
struct SlurmRecord {
  private let values: [Substring: Substring]

  init(_ line: String) {
    var values: [Substring: Substring] = [:]
    for word in line.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      guard let sign = word.firstIndex(of: "=") else { continue }
      // Of values with spaces the first word alone is kept; nobody asks for those.
      let name = word[..<sign]
      if values[name] == nil { values[name] = word[word.index(after: sign)...] }
    }
    self.values = values
  }

  subscript(name: String) -> String? { values[name[...]].map { String($0) } }
}

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
