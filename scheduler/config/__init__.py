"""What a site can set: flags, environment variables and files, and which values they accept."""
