"""What connects this process to a service: sessions, carriers, layouts, buffers."""
