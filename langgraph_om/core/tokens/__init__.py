"""What things count: text, messages, images, by estimate or by tokenizer."""
