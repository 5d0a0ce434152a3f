print("nodes")
