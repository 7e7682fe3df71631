"""The engine `aegra` of langgraph-python-shim.py: Aegra (Apache-2.0) with what an agent must be able to rely on with several replicas."""
