"""What a message holds: blocks, parts, attachments, text, keys, times."""
