"""What a site can set: flags, environment variables and files, and what they accept."""
