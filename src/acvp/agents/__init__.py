"""DQN agents: who plays while frames are recorded, and who judges predicted ones."""
