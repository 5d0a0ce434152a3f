import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The verb 'submit'", .timed)
struct SubmitTests {
  @Test(
    "'submit --print' shows a job that lists each host once and keeps running after a host loss"
  )
  func script() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(DeployedTopologyTests.numbers, to: "ward.yaml")
      try tool.directory.write(
        """
        engine: slurm
        places:
          front: { hosts: [fh1, fh2], spare: [fh4] }
          back: { hosts: [fh2, fh3] }
        """, to: "it's.yaml")
      let shown = try await tool.run(
        "submit", "ward.yaml", "--deployment", "it's.yaml", "--name", "night", "--print",
        "--sbatch",
        "--time=1:00:00", code: 0)
      let lines = shown.output.split(separator: "\n").map(String.init)
      #expect(
        lines.prefix(7) == [
          "#!/bin/sh", "#SBATCH --job-name=night", "#SBATCH --nodes=4",
          "#SBATCH --nodelist=fh1,fh2,fh4,fh3", "#SBATCH --no-kill", "#SBATCH --no-requeue",
          "#SBATCH --time=1:00:00",
        ])
      #expect(shown.output.contains("/it'\\''s.yaml' '--name' 'night' '--plain' &"), "\(shown)")
    }
  }

  @Test("'submit' refuses a deployment that is not for Slurm and says what to do")
  func refused() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(DeployedTopologyTests.numbers, to: "ward.yaml")
      try tool.directory.write(DeployedTopologyTests.lab, to: "lab.yaml")
      let none = try await tool.run("submit", "ward.yaml", code: 2)
      #expect(none.error.contains("'submit' requires --deployment FILE"), "\(none)")
      let local = try await tool.run("submit", "ward.yaml", "--deployment", "lab.yaml", code: 2)
      #expect(
        local.error.contains("'lab.yaml' has engine 'local'"), "\(local)")
    }
  }
}
