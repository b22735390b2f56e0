"""Where frames come from: any Gymnasium env with image frames and discrete actions, Atari, and ToyGame."""
