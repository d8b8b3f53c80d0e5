"""What a cluster lacks before the first label: one module per question, each asked as far as its asker may.

Nothing is written: objects are tried by dry-run, permissions by reviews.
"""
