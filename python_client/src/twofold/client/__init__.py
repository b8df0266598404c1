"""The connection from this process to a service: sessions, carriers, layouts, buffers."""
