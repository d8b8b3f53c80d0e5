"""What the API server does at admission, asked of a real one that runs alone: no node, no controllers, any user."""
