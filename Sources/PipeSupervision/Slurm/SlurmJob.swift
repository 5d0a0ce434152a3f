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
