"""The TensorFlow adapter: runtime configuration, simulators and Keras layers."""
