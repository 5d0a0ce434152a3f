print("orchestrator")
