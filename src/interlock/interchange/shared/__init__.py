"""What several formats are made of: text and bytes read with care, messages in order, flows of bytes."""
